"""What items are made of: uploaded bytes or files of this machine, and where their originals are kept.

Two caches spare work and may be deleted: the content hashes of files, and the views that each mesh gave. The
folders that a collection was filled from have short names. A payload has the name, not the path.
"""

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from app.encoding.observations import MeshData, MeshPath
from index.store.blobs import BlobKey, Blobs, FolderBlobs, key_of
from multifold.bundle.bundle import ViewSpec
from multifold.durable import make_folder, write_file
from multifold.errors import MultifoldError
from multifold.types import Item
from renderers.mesh.formats.mesh_file import EXTENSIONS, digest_content

# path, size, time of change, time of change of content or attributes, inode
FileStamp: TypeAlias = tuple[str, int, int, int, int]

SETTLED_NS = 2_000_000_000  # ns: a file younger than this may change again without a change of its times
COMMIT_EVERY = 500  # files after which the hashes are committed
SOURCES_FILE = "sources.json"


@dataclass(frozen=True, eq=False)
class ItemSource:
    """An item as it is handed in: captions, photos and a mesh, as bytes or as files."""

    id: str
    texts: tuple[str, ...] = ()
    images: tuple[bytes | Path, ...] = ()
    mesh: MeshData | MeshPath | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)


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


@dataclass(frozen=True)
class FileContent:
    """The hash of a picture, or of a mesh with the files it names, and the stamps of these files."""

    hash: str
    stamps: tuple[FileStamp, ...]

    def is_current(self) -> bool:
        try:
            return all(stamp_file(Path(stamp[0])) == stamp for stamp in self.stamps)
        except OSError:
            return False


def stamp_file(path: Path) -> FileStamp:
    status = path.stat()
    return str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


class ContentCache(AbstractContextManager["ContentCache"]):
    """Hashes of files, in a small database."""

    def __init__(self, path: Path | None, settled: int = SETTLED_NS) -> None:
        self._settled, self._new = settled, 0
        self.read = 0  # files that were not cached, or had changed
        try:
            self._open(path)
        except sqlite3.DatabaseError:  # damaged: it is only a cache
            self._database.close()
            assert path is not None
            path.unlink()
            self._open(path)

    def of(self, path: Path, within: Path | None = None) -> FileContent:
        """The content of a picture or a mesh; a mesh may name files of the folder `within`."""
        for row in self._database.execute("SELECT known FROM files WHERE path = ?", (str(path),)):
            value, stamps = json.loads(row[0])
            content = FileContent(value, tuple(map(tuple, stamps)))
            if content.is_current():
                return content
        return self._read(path, within)

    def companions(self, mesh: Path, within: Path) -> tuple[Path, ...]:
        """The files that a mesh names; none if it cannot be read."""
        try:
            return tuple(Path(stamp[0]) for stamp in self.of(mesh, within).stamps[1:])
        except (MultifoldError, OSError):
            return ()

    def __exit__(self, *_: object) -> None:
        self._database.commit()
        self._database.close()

    def _open(self, path: Path | None) -> None:
        self._database = sqlite3.connect(":memory:" if path is None else path)
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, known TEXT)")

    def _read(self, path: Path, within: Path | None) -> FileContent:
        self.read += 1
        started, complete = time.time_ns(), True
        files: tuple[Path, ...] = (path,)
        before = stamp_file(path)
        if path.suffix.lower() in EXTENSIONS:
            mesh = digest_content(path, within=within)
            value, files, complete = mesh.hash, mesh.files, not mesh.missing
        else:
            with open(path, "rb") as picture:
                value = hashlib.file_digest(picture, "sha256").hexdigest()
        content = FileContent(value, (before, *map(stamp_file, files[1:])))
        youngest = max(max(stamp[2], stamp[3]) for stamp in content.stamps)
        if complete and youngest < started - self._settled and content.is_current():
            row = (str(path), json.dumps([content.hash, content.stamps]))
            self._database.execute("INSERT OR REPLACE INTO files VALUES (?, ?)", row)
            self._new += 1
            if self._new % COMMIT_EVERY == 0:
                self._database.commit()
        return content


class ViewCache:
    """A folder of small files, one for each mesh of a manifest, with the blob keys of its views."""

    def __init__(self, home: Path, spec: ViewSpec) -> None:
        self._folder = home / "drawn"
        self._spec = json.dumps(asdict(spec), sort_keys=True)

    def get(self, content: str) -> tuple[str, ...] | None:
        """The keys of its views; None if this mesh was not drawn yet, or with other settings."""
        try:
            return tuple(json.loads(self._path(content).read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError):
            return None

    def put(self, content: str, keys: Sequence[str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path(content).write_text(json.dumps([*keys]), encoding="utf-8")

    def _path(self, content: str) -> Path:
        return self._folder / f"{hashlib.sha256(f'{content} {self._spec}'.encode()).hexdigest()}.json"


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
    root, path = _read_sources(home).get(str(payload.get("source"))), payload.get("path")
    if root is None or not isinstance(path, str):
        return None
    file = (root / path).resolve()  # clients can change a payload
    ours = file.suffix.lower() in EXTENSIONS and file.is_relative_to(root.resolve()) and file.is_file()
    return MeshPath(file, root) if ours else None


def find_stored_mesh(blobs: Blobs, home: Path, item: Item) -> MeshData | MeshPath | None:
    """The mesh that an item has its views of: in place, kept as one file, or in the folder of its source."""
    mesh = find_mesh_in_place(blobs, item.files)
    if mesh is not None:
        return mesh
    files = [blobs.get(key) for key in item.files]  # its error names one that is gone
    kept = MeshData(files[0], BlobKey(item.files[0]).suffix) if len(files) == 1 else None
    return kept or find_original_mesh(home, item.payload)


def _read_sources(home: Path) -> dict[str, Path]:
    try:
        raw = json.loads((home / SOURCES_FILE).read_text(encoding="utf-8"))
        return {str(name): Path(root) for name, root in raw.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError) as error:
        sentence = f"{home / SOURCES_FILE} is damaged ({error}); it holds the name of each folder."
        raise MultifoldError(sentence) from error


def adopt_originals(target: Blobs, source: Blobs, item: Item) -> None:
    """Give another collection the references to originals of an item that have no copy."""
    if isinstance(target, FolderBlobs) and isinstance(source, FolderBlobs):
        keys = [key for key in (*item.pictures("photo"), *item.files) if not source.path(key).is_file()]
        target.places.add([(key, path) for key in keys for path in source.places.paths(key)])


def find_mesh_in_place(blobs: Blobs, files: Sequence[str]) -> MeshPath | None:
    """A mesh in place whose files still have these keys, within the folder that holds them all."""
    if not files or not isinstance(blobs, FolderBlobs):
        return None
    others = [path.parent for key in files[1:] for path in blobs.places.paths(key)]
    for path in blobs.places.paths(files[0]):
        within = Path(os.path.commonpath([path.parent, *others]))
        try:
            contents = digest_content(path, within=within).files
        except (MultifoldError, OSError):
            continue
        if tuple(map(key_of, contents)) == tuple(files):
            return MeshPath(path, within)
    return None
