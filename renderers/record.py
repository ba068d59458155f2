"""What has been rendered into a folder: `views.json`, by which a second run finds nothing left to do."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from renderers.errors import MeshError

FILE = "views.json"


@dataclass(frozen=True)
class Drawn:
    """One mesh in its pictures."""

    stamp: str  # of its content and of how it was drawn
    pictures: tuple[str, ...]
    up: str = ""  # the axis that was taken for up
    up_reason: str = ""
    notes: tuple[str, ...] = ()


@dataclass
class Record:
    """The meshes of a folder of pictures, by name."""

    folder: Path
    drawn: dict[str, Drawn] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # by the last run, and why

    @classmethod
    def read(cls, folder: Path) -> "Record":
        """The record of a folder, empty if it has none."""
        try:
            kept = json.loads((folder / FILE).read_text(encoding="utf-8"))
            drawn = {name: _drawn(**one) for name, one in kept["meshes"].items()}
            return cls(folder, drawn, dict(kept.get("skipped", {})))
        except FileNotFoundError:
            return cls(folder)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise MeshError(f"{folder / FILE} is damaged. Delete it to render anew.") from error

    def holds(self, name: str, stamp: str) -> bool:
        """Whether this mesh has been rendered so, and its pictures are still there."""
        known = self.drawn.get(name)
        return (
            known is not None
            and known.stamp == stamp
            and all((self.folder / one).is_file() for one in known.pictures)
        )

    def add(self, name: str, drawn: Drawn) -> None:
        """Note the pictures of a mesh; those that it had and has no longer are deleted."""
        before = self.drawn.get(name)
        for picture in set(before.pictures if before else ()) - set(drawn.pictures):
            (self.folder / picture).unlink(missing_ok=True)
        self.drawn[name] = drawn

    def write(self) -> None:
        """Written beside and moved into place."""
        meshes = {name: asdict(self.drawn[name]) for name in sorted(self.drawn)}
        beside = self.folder / f"{FILE}.tmp"
        kept = {"meshes": meshes, "skipped": self.skipped}
        beside.write_text(json.dumps(kept, indent=1, ensure_ascii=False), encoding="utf-8")
        beside.replace(self.folder / FILE)


def _drawn(
    stamp: str, pictures: Sequence[str], up: str = "", up_reason: str = "", notes: Sequence[str] = ()
) -> Drawn:
    return Drawn(stamp, tuple(pictures), up, up_reason, tuple(notes))
