"""What a sandbox and its worker processes say to each other.

A frame is 4 bytes of length, then JSON. The bytes of views, points or a file follow their answer. Nothing is
pickled, so a worker that a hostile file has taken over can show wrong pictures to its parent and no more.
"""

import json
import struct
from dataclasses import asdict, dataclass
from typing import Any

from renderers.contracts import MeshError, MeshLimits, Up
from renderers.orders import GlbOrder, Order, PointOrder, ViewOrder

FRAME_LENGTH = struct.Struct("<I")
INVALID_ANSWER = "the mesh cannot be drawn: the drawing process gave a senseless answer."
_ORDERS: dict[str, type[Order]] = {kind.__name__: kind for kind in (ViewOrder, PointOrder, GlbOrder)}


class WorkerLostError(MeshError):
    """The worker died or gave no answer in time; it cannot be asked again."""


class WorkerKilledError(WorkerLostError):
    """The system, short of memory, or a person ended the worker. No file does that by itself."""


@dataclass(frozen=True)
class MeshRequest:
    """One order for a mesh file."""

    path: str
    within: str | None
    up: Up
    limits: MeshLimits
    order: Order

    def frame(self) -> bytes:
        return message_frame({**asdict(self), "kind": type(self.order).__name__})

    @classmethod
    def decode(cls, data: bytes) -> "MeshRequest":
        fields = json.loads(data)
        order = fields["order"]
        if order.get("points"):
            order["points"] = PointOrder(**order["points"])
        return cls(
            path=fields["path"],
            within=fields["within"],
            up=fields["up"],
            limits=MeshLimits(**fields["limits"]),
            order=_ORDERS[fields["kind"]](**order),
        )


def message_frame(message: dict[str, Any]) -> bytes:
    """A message with its length before it."""
    data = json.dumps(message).encode()
    return FRAME_LENGTH.pack(len(data)) + data
