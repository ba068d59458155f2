"""What a sandbox is asked for: a mesh, and its views, points of its surface or a file for viewers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from renderers import cameras
from renderers.contracts import Background, MeshFacts, MeshModel, Rig, RigError, Up, Views, check_view_size
from renderers.points import PointSample, check_point_count

_MOST_NOTES, _LONGEST_NOTE = 20, 200
_MOST = 1e15  # of a fact


@dataclass(frozen=True)
class MeshSource:
    """The bytes of an upload with its suffix, or a file in place."""

    mesh: bytes | Path
    suffix: str | None = None  # of an upload
    within: Path | None = None  # the folder whose files a file in place may name; its own if not given
    up: Up = "auto"


@dataclass(frozen=True)
class PointOrder:
    """So many points of a surface; see points.py."""

    count: int = 2048
    seed: int = 0

    def check(self) -> None:
        check_point_count(self.count)


@dataclass(frozen=True)
class ViewOrder:
    """The views of a rig, or one of them; perhaps points of the surface, too."""

    rig: str = "ring6"
    size: int = 224
    background: Background = "white"
    view: int | None = None  # this view of the rig alone
    points: PointOrder | None = None

    def check(self) -> None:
        check_view_size(self.size)
        self.cameras()

    def cameras(self) -> Rig:
        """The cameras of the views that are drawn."""
        rig = cameras.rig(self.rig)
        if self.view is None:
            return rig
        if not 0 <= self.view < len(rig):
            raise RigError(f"the rig {self.rig} has no view {self.view}")
        return Rig(rig.name, rig.poses[self.view : self.view + 1], rig.fov_degrees)


@dataclass(frozen=True)
class GlbOrder:
    """The mesh as a GLB file for viewers; see mesh/glb.py."""

    def check(self) -> None:
        """There is nothing to choose."""


Order = ViewOrder | PointOrder | GlbOrder


@dataclass(frozen=True)
class MeshReport:
    """What is known of a mesh once it is loaded, as its users may read it."""

    up: str  # the file's up axis
    up_reason: str
    notes: tuple[str, ...] = ()
    facts: MeshFacts = field(default_factory=dict)

    @classmethod
    def of(cls, model: MeshModel) -> "MeshReport":
        """What a loaded mesh has to say, cut to what a message may hold."""
        notes = tuple(note[:_LONGEST_NOTE] for note in model.notes[:_MOST_NOTES])
        return cls(up=model.up, up_reason=model.up_reason[:_LONGEST_NOTE], notes=notes, facts=model.facts)

    @classmethod
    def decode(cls, fields: Mapping[str, Any]) -> "MeshReport":
        """A report as JSON has it, from a process that may lie: texts become texts, and facts are numbers."""
        notes = tuple(map(str, fields.get("notes", ())))
        facts = {name: one for name, one in dict(fields.get("facts", {})).items() if _is_fact(one)}
        return cls(str(fields.get("up")), str(fields.get("up_reason")), notes, facts)


def _is_fact(value: object) -> bool:
    return isinstance(value, (bool, int, float)) and abs(value) < _MOST


@dataclass(frozen=True, eq=False)
class RenderedMesh:
    """The views of one mesh."""

    views: Views
    report: MeshReport
    points: PointSample | None = None  # of its surface, if they were asked for and it has any


@dataclass(frozen=True, eq=False)
class SampledMesh:
    """Points of the surface of one mesh."""

    points: PointSample
    report: MeshReport
