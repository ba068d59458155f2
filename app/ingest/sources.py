"""What items are made of: uploaded bytes or files of this machine, and the folders that files come from.

The folders that a collection was filled from have short names. A payload has the name, not the path.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from app.encoding.observations import MeshData, MeshPath
from multifold.durable import make_folder, write_file
from multifold.errors import MultifoldError
from multifold.files.folder import HEIF_SUFFIXES, PICTURE_SUFFIXES
from multifold.types import Side
from renderers.mesh.formats.table import EXTENSIONS

# path, size, time of change, time of change of content or attributes, inode
FileStamp: TypeAlias = tuple[str, int, int, int, int]
SOURCES_FILE = "sources.json"


@dataclass(frozen=True, eq=False)
class ItemSource:
    """An item as it is handed in: captions, photos and a mesh, as bytes or as files."""

    id: str
    texts: tuple[str, ...] = ()
    images: tuple[bytes | Path, ...] = ()
    mesh: MeshData | MeshPath | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[MeshData, ...] = ()  # originals that are kept with it
    vectors: Mapping[Side, Sequence[Sequence[float]]] = field(default_factory=dict)  # features that it brings


@dataclass(frozen=True, eq=False)
class IngestTask(ItemSource):
    """An item of a folder or a manifest that is to be written."""

    images: tuple[Path, ...] = ()
    mesh: MeshPath | None = None
    keeps_pictures: bool = False  # those of the stored item: only its texts, payload or place have changed
    keeps_captions: bool = False  # those of the stored item: its pictures have changed, or were not there
    stamps: tuple[FileStamp, ...] = ()  # of its files, when they were hashed

    def check_unchanged(self) -> None:
        """Refuse files that have changed since they were hashed."""
        if any(stamp_file(Path(stamp[0])) != stamp for stamp in self.stamps):
            raise MultifoldError("it changed while it was read; run it again")


def stamp_file(path: Path) -> FileStamp:
    status = path.stat()
    return str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


@dataclass(frozen=True)
class SourceFolder:
    """A folder that items come from."""

    name: str
    root: Path


def find_source(home: Path, folder: Path) -> SourceFolder:
    """The source that a folder belongs to: one on the collection's list that holds it, or a new one."""
    folder = folder.resolve()
    roots = _read_sources(home)
    holding = [SourceFolder(name, root) for name, root in roots.items() if folder.is_relative_to(root)]
    if holding:
        return max(holding, key=lambda source: len(source.root.parts))
    plain = folder.name or "root"
    numbered = (f"{plain}-{number}" for number in range(2, len(roots) + 3))
    return SourceFolder(next(name for name in (plain, *numbered) if name not in roots), folder)


def record_source(home: Path, source: SourceFolder) -> None:
    """Put a source on the list, so that it keeps its name. Call it before its first item is written."""
    roots = _read_sources(home)
    if roots.get(source.name) != source.root:
        make_folder(home)
        names = {name: str(root) for name, root in {**roots, source.name: source.root}.items()}
        write_file(home / SOURCES_FILE, json.dumps(names).encode())


def find_original_mesh(home: Path, payload: Mapping[str, Any]) -> MeshPath | None:
    """The mesh that an item was made of, within the folder of its source; None if there is no such file."""
    file, root = _find_original(home, payload, EXTENSIONS)
    return None if file is None else MeshPath(file, root)


def find_original_photo(home: Path, payload: Mapping[str, Any]) -> Path | None:
    """The photo that an item was made of, or will be, in the same way."""
    return _find_original(home, payload, (*PICTURE_SUFFIXES, *HEIF_SUFFIXES))[0]


def _find_original(
    home: Path, payload: Mapping[str, Any], suffixes: Collection[str]
) -> tuple[Path | None, Path]:
    root = _read_sources(home).get(str(payload.get("source")))
    path = payload.get("path")
    if root is None or not isinstance(path, str):
        return None, home
    file = (root / path).resolve()  # clients can change a payload
    ours = file.suffix.lower() in suffixes and file.is_relative_to(root.resolve()) and file.is_file()
    return (file if ours else None), root


def _read_sources(home: Path) -> dict[str, Path]:
    try:
        raw = json.loads((home / SOURCES_FILE).read_text(encoding="utf-8"))
        return {str(name): Path(root) for name, root in raw.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError) as error:
        sentence = f"{home / SOURCES_FILE} is damaged ({error}); it holds the name of each folder."
        raise MultifoldError(sentence) from error
