"""What goes between us and a process that draws: a *frame* is 4 bytes of length, then JSON."""

import json
import struct
from dataclasses import asdict, dataclass

from renderers.contracts import MeshLimits
from renderers.images.color import Background
from renderers.mesh.up_axis import Up

FRAME_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class RenderRequest:
    """One mesh to draw."""

    path: str
    rig: str
    size: int
    background: Background
    up: Up
    limits: MeshLimits
    within: str | None = None  # the folder whose files the mesh may name; its own if not given


def message_frame(message: dict[str, object]) -> bytes:
    """A message with its length before it."""
    data = json.dumps(message).encode()
    return FRAME_LENGTH.pack(len(data)) + data


def encode_request(request: RenderRequest) -> bytes:
    """The frame of a request."""
    return message_frame(asdict(request))


def decode_request(data: bytes) -> RenderRequest:
    """The request in a frame."""
    fields = json.loads(data)
    return RenderRequest(**{**fields, "limits": MeshLimits(**fields["limits"])})
