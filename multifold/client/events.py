"""Reads server-sent events, which come in pieces of any length."""

import json
from typing import Generic, TypeVar

from multifold.wire.reading import read_json

T = TypeVar("T")
DATA = b"data:"


class EventReader(Generic[T]):
    """Events whose data is JSON of one type, each on a line. Names and comments are passed over."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._begun = b""  # a line of which the rest has not come yet

    def read(self, piece: bytes) -> list[T]:
        """What is complete with this piece."""
        *lines, self._begun = (self._begun + piece).split(b"\n")
        return [
            read_json(self._kind, json.loads(line.removeprefix(DATA)))
            for line in lines
            if line.startswith(DATA)
        ]
