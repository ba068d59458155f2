"""What the pool of sandbox.py and its worker processes say to each other.

A frame is 4 bytes of length, then JSON. The bytes of views, points or a file follow their answer.
"""

import struct
from dataclasses import dataclass

from renderers.contracts import Background, MeshError, MeshLimits, Up, Views
from renderers.points import PointSample

FRAME_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class RenderRequest:
    """One mesh to draw."""

    path: str
    rig: str | None  # no views without one
    size: int
    background: Background
    up: Up
    limits: MeshLimits
    within: str | None = None  # the folder whose files the mesh may name; its own if not given
    view: int | None = None  # this view of the rig alone
    glb: bool = False  # the mesh itself for a viewer, and no views
    points: int = 0  # so many points of its surface
    seed: int = 0  # of the points


@dataclass(frozen=True, eq=False)
class RenderedMesh:
    """The views of one mesh, and what a user should know about it."""

    views: Views
    up: str  # the file's up axis
    up_reason: str
    notes: tuple[str, ...]
    points: PointSample | None = None  # of its surface, if they were asked for and it has any


@dataclass(frozen=True, eq=False)
class SampledMesh:
    """Points of the surface of one mesh, and what a user should know about it."""

    points: PointSample
    up: str
    up_reason: str
    notes: tuple[str, ...]


class SandboxClosedError(RuntimeError):
    """The sandbox was asked after it had been closed."""


class WorkerLostError(MeshError):
    """The worker died or gave no answer in time; it cannot be asked again."""


class WorkerKilledError(WorkerLostError):
    """The system, short of memory, or a person ended the worker. No file does that by itself."""
