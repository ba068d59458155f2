"""What has been rendered into a folder: `views.json`, by which a second run finds nothing left to do."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from renderers.errors import MeshError

FILE = "views.json"


@dataclass
class Record:
    """Mesh -> the stamp of its content and settings, and the pictures made from it."""

    folder: Path
    stamps: dict[str, str] = field(default_factory=dict)
    pictures: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Record":
        """The record of a folder, empty if it has none."""
        try:
            meshes = json.loads((folder / FILE).read_text(encoding="utf-8"))["meshes"]
            stamps = {name: str(one["stamp"]) for name, one in meshes.items()}
            return cls(folder, stamps, {name: list(one["pictures"]) for name, one in meshes.items()})
        except FileNotFoundError:
            return cls(folder)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise MeshError(f"{folder / FILE} is damaged. Delete it to render anew.") from error

    def holds(self, name: str, stamp: str) -> bool:
        """Whether this mesh has been rendered so, and its pictures are still there."""
        pictures = self.pictures.get(name, [])
        return self.stamps.get(name) == stamp and all((self.folder / one).is_file() for one in pictures)

    def add(self, name: str, stamp: str, pictures: list[str]) -> None:
        """Note the pictures of a mesh."""
        self.stamps[name], self.pictures[name] = stamp, pictures

    def write(self) -> None:
        """Written beside and moved into place."""
        meshes = {
            name: {"stamp": self.stamps[name], "pictures": self.pictures[name]}
            for name in sorted(self.pictures)
        }
        beside = self.folder / f"{FILE}.tmp"
        beside.write_text(json.dumps({"meshes": meshes}, indent=1, ensure_ascii=False), encoding="utf-8")
        beside.replace(self.folder / FILE)
