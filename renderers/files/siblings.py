"""The files beside a mesh file: buffers, textures, material libraries. Nothing outside the folder is read."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from renderers.errors import MeshError
from renderers.limits import Limits


class MissingFileError(MeshError):
    """A file that the mesh names does not lie beside it."""


@dataclass
class Siblings:
    """Reads files of one folder, and keeps an account of what was asked for."""

    folder: Path
    limits: Limits
    bytes_read: int = 0
    refused: list[str] = field(default_factory=list)

    def read(self, name: str) -> bytes:
        """The bytes of a file in the folder; `name` is a path or a URI relative to it."""
        path = self.find(name)
        self.bytes_read += path.stat().st_size
        if self.bytes_read > self.limits.file_bytes:
            raise MeshError(f"the file and those it needs are larger than {self.limits.file_bytes:,} bytes.")
        return path.read_bytes()

    def find(self, name: str) -> Path:
        """Where a file of the folder lies."""
        root = self.folder.resolve()
        outside = False
        for candidate in _candidates(name):
            path = (root / candidate).resolve()
            if not path.is_relative_to(root):
                outside = True
            elif path.is_file():
                return path
        if outside:
            self.refused.append(name)
            raise MeshError(
                f"the file asks for {name!r}, which lies outside its folder. Put it beside the mesh."
            )
        raise MissingFileError(f"the file needs {name!r}, which does not lie beside it. Send them together.")


def _candidates(name: str) -> list[str]:
    """As written, unquoted, and by its last word: exporters love absolute paths of their own machine."""
    slashed = unquote(name.strip()).replace("\\", "/")
    spellings = [name.strip(), slashed, slashed.rsplit("/", 1)[-1]]
    return [spelling for spelling in spellings if spelling and "\0" not in spelling]
