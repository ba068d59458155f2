"""The files beside a mesh file: buffers, textures, material libraries. Nothing outside the folder is read."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import unquote

from renderers.errors import MeshError
from renderers.limits import Limits

_NAMES_SHOWN = 80  # letters


class MissingFileError(MeshError):
    """A file that the mesh names does not lie beside it."""


@dataclass
class Siblings:
    """Reads files of one folder, and keeps an account of what was found and what was asked for in vain."""

    folder: Path
    limits: Limits
    within: Path | None = None  # the outermost folder that may be read from; the mesh's own if not given
    bytes_read: int = 0
    refused: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    found: list[Path] = field(default_factory=list)

    def read(self, name: str) -> bytes:
        """The bytes of a file in the folder; `name` is a path or a URI relative to it."""
        path = self.find(name)
        most = self.limits.file_bytes - self.bytes_read
        with open(path, "rb") as source:
            data = source.read(most + 1)
        if len(data) > most:
            raise MeshError(
                f"the file and those it needs are larger than {self.limits.file_bytes:,} bytes. "
                "Simplify it or shrink its textures first."
            )
        self.bytes_read += len(data)
        self.found.append(path)
        return data

    def find(self, name: str) -> Path:
        """Where a file of the folder lies."""
        home, root = self.folder.resolve(), (self.within or self.folder).resolve()
        shown = repr(name[:_NAMES_SHOWN])
        outside = False
        for path in _candidates(home, name):
            if not path.is_relative_to(root):
                outside = True
            elif path.is_file():
                return path
        if outside:
            self.refused.append(name)
            raise MeshError(
                f"the file asks for {shown}, which lies outside its folder. Put it beside the mesh."
            )
        self.missing.append(name)
        raise MissingFileError(f"the file needs {shown}, which does not lie beside it. Send them together.")


def _candidates(home: Path, name: str) -> Iterator[Path]:
    """As written, unquoted, and by its last word: exporters love absolute paths of their own machine."""
    slashed = unquote(name.strip()).replace("\\", "/")
    for spelling in dict.fromkeys((name.strip(), slashed, slashed.rsplit("/", 1)[-1])):
        if spelling and not _absolute(spelling):
            try:
                path = (home / spelling).resolve()
                path.is_file()
            except (OSError, ValueError, RuntimeError):
                continue  # too long, not a name at all, or a loop of links
            yield path


def _absolute(name: str) -> bool:
    return PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive != ""
