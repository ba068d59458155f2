"""Reads JSON into the dataclasses of the wire; unknown fields of a newer service are ignored."""

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Reader: TypeAlias = Callable[[Any], Any]
PLAIN_READERS: dict[Any, Reader] = {float: float, dict: dict, datetime: datetime.fromisoformat}


def read_json(kind: type[T], raw: Any) -> T:  # noqa: ANN401 (any JSON)
    """JSON as a value of a type. What does not fit raises KeyError, TypeError or ValueError."""
    reader: Callable[[Any], T] = _reader(cast(Any, kind))
    return reader(raw)


@cache
def _reader(kind: Any) -> Reader:  # noqa: ANN401 (a type hint)
    if is_dataclass(kind):
        return _dataclass_reader(kind)
    origin = get_origin(kind)
    arguments = get_args(kind)
    if NoneType in arguments:
        (present,) = [_reader(one) for one in arguments if one is not NoneType]
        return lambda raw: None if raw is None else present(raw)
    if origin is tuple:
        each = _reader(arguments[0])
        return lambda raw: tuple([each(one) for one in raw])
    if origin is dict:
        value = _reader(arguments[1])
        return lambda raw: {key: value(one) for key, one in raw.items()}
    return PLAIN_READERS.get(kind, lambda raw: raw)


def _dataclass_reader(kind: Any) -> Reader:  # noqa: ANN401 (a dataclass)
    hints = get_type_hints(kind)
    readers = [
        (one.name, _reader(hints[one.name]), one.default is MISSING and one.default_factory is MISSING)
        for one in fields(kind)
    ]
    return lambda raw: kind(
        **{name: read(raw[name]) for name, read, required in readers if required or name in raw}
    )
