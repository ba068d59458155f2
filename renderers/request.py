"""What goes between us and a process that draws: a *frame* is 4 bytes of length, then JSON."""

import json
import struct
from dataclasses import asdict, dataclass

from renderers.backdrop import Background
from renderers.limits import Limits
from renderers.upright import Up

LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Request:
    """One mesh to draw."""

    path: str
    rig: str
    size: int
    background: Background
    up: Up
    limits: Limits
    within: str | None = None  # the folder whose files the mesh may name; its own if not given


def frame(message: dict[str, object]) -> bytes:
    """A message with its length before it."""
    data = json.dumps(message).encode()
    return LENGTH.pack(len(data)) + data


def encode(request: Request) -> bytes:
    """The frame of a request."""
    return frame(asdict(request))


def decode(data: bytes) -> Request:
    """The request in a frame."""
    fields = json.loads(data)
    return Request(**{**fields, "limits": Limits(**fields["limits"])})
