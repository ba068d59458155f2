"""Published files on this disk, and where they came from."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multifold.errors import MultifoldError

_FRONT = re.compile(r"\A---\s*\n(.*?)^---\s*$", re.DOTALL | re.MULTILINE)
_LICENCE = re.compile(r"^license:\s*[\"']?([\w.+-]+)", re.MULTILINE)


class PullError(MultifoldError):
    """Published towers that cannot become a bundle; says why."""


@dataclass(frozen=True)
class PublishedFiles:
    """A folder of published files. `origin` says where they come from, for the bundle's provenance."""

    folder: Path
    origin: Mapping[str, str]
    licence: str | None
    pins: Mapping[str, str] = field(default_factory=dict)  # name -> sha256 that it must have

    def names(self) -> list[str]:
        """All its files, as paths relative to the folder."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(path.relative_to(self.folder).as_posix() for path in found)

    def path(self, name: str) -> Path:
        """Where one of its files lies."""
        path = self.folder / name
        if not path.is_file():
            raise PullError(f"{self.folder} lacks its file {name}")
        return path

    def text(self, name: str) -> str:
        """What one of its files says."""
        try:
            return self.path(name).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise PullError(f"{self.path(name)} is damaged: {error}") from error

    def json(self, name: str) -> dict[str, Any]:
        """One of its configurations."""
        try:
            said = json.loads(self.text(name))
        except json.JSONDecodeError as error:
            raise PullError(f"{self.path(name)} is damaged: {error}") from error
        if not isinstance(said, dict):
            raise PullError(f"{self.path(name)} is damaged: it is no JSON object")
        return said


def open_published_folder(folder: Path, licence: str | None, pins: Mapping[str, str]) -> PublishedFiles:
    """Files that were brought by hand; their licence is the one stated, else what their README says."""
    if not folder.is_dir():
        raise PullError(f"there is no folder {folder}")
    return PublishedFiles(folder, {"folder": folder.resolve().name}, licence or _stated_licence(folder), pins)


def _stated_licence(folder: Path) -> str | None:
    readme = folder / "README.md"
    if not readme.is_file():
        return None
    front = _FRONT.match(readme.read_text(encoding="utf-8", errors="replace"))
    found = _LICENCE.search(front[1]) if front else None
    return found[1] if found else None
