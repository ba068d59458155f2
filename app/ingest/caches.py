"""Caches of an ingest: content hashes of files by size and times, and the views that each mesh gave.

Both are derived: without them every file is read again, and every mesh is drawn again."""

import hashlib
import json
import sqlite3
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from multifold.bundle.bundle import ViewSpec
from multifold.errors import MultifoldError
from renderers.mesh.formats.mesh_file import EXTENSIONS, digest_content

FileStamp: TypeAlias = tuple[
    str, int, int, int, int
]  # path, size, changed, changed in any way, number on the disk

SETTLED_NS = 2_000_000_000  # ns: a file younger than this may change again without a change of its times
COMMIT_EVERY = 500  # files after which the hashes are written down


@dataclass(frozen=True)
class FileContent:
    """The hash of a picture, or of a mesh with the files it names, and how these files were then."""

    hash: str
    stamps: tuple[FileStamp, ...]

    def is_as_it_was(self) -> bool:
        """Whether none of the files has changed since."""
        try:
            return all(stamp_file(Path(one[0])) == one for one in self.stamps)
        except OSError:
            return False


class ContentCache:
    """Hashes of files, remembered in one small database."""

    def __init__(self, path: Path | None, settled: int = SETTLED_NS) -> None:
        self._settled, self._new = settled, 0
        self.read = 0  # files that were not as they are known
        self._database = sqlite3.connect(":memory:" if path is None else path)
        try:
            self._create()
        except sqlite3.DatabaseError:  # damaged: it is only a memory
            self._database.close()
            assert path is not None
            path.unlink()
            self._database = sqlite3.connect(path)
            self._create()

    def of(self, path: Path, within: Path | None = None) -> FileContent:
        """What a picture or a mesh holds now; a mesh may name files of the folder `within`."""
        row = self._database.execute("SELECT known FROM files WHERE path = ?", (str(path),)).fetchone()
        if row is not None:
            value, stamps = json.loads(row[0])
            known = FileContent(value, tuple(map(tuple, stamps)))
            if known.is_as_it_was():
                return known
        return self._read(path, within)

    def companions(self, mesh: Path, within: Path) -> tuple[Path, ...]:
        """The files that a mesh names; none if it cannot be read."""
        try:
            return tuple(Path(one[0]) for one in self.of(mesh, within).stamps[1:])
        except (MultifoldError, OSError):
            return ()

    def close(self) -> None:
        """Write down what is new."""
        self._database.commit()
        self._database.close()

    def __enter__(self) -> "ContentCache":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _create(self) -> None:
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, known TEXT)")

    def _read(self, path: Path, within: Path | None) -> FileContent:
        self.read += 1
        started, whole = time.time_ns(), True
        files: tuple[Path, ...] = (path,)
        before = stamp_file(path)
        if path.suffix.lower() in EXTENSIONS:
            mesh = digest_content(path, within=within)
            value, files, whole = mesh.hash, mesh.files, not mesh.missing
        else:
            with open(path, "rb") as source:
                value = hashlib.file_digest(source, "sha256").hexdigest()
        known = FileContent(value, (before, *map(stamp_file, files[1:])))
        youngest = max(max(one[2], one[3]) for one in known.stamps)
        if whole and youngest < started - self._settled and known.is_as_it_was():
            self._remember(path, known)
        return known

    def _remember(self, path: Path, known: FileContent) -> None:
        row = (str(path), json.dumps([known.hash, known.stamps]))
        self._database.execute("INSERT OR REPLACE INTO files VALUES (?, ?)", row)
        self._new += 1
        if self._new % COMMIT_EVERY == 0:
            self._database.commit()


def stamp_file(path: Path) -> FileStamp:
    """What a glance at a file tells."""
    seen = path.stat()
    return str(path), seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino


class ViewCache:
    """A folder of small files, one a mesh, naming the blobs of its views."""

    def __init__(self, folder: Path, spec: ViewSpec) -> None:
        self._folder = folder
        self._spec = json.dumps(asdict(spec), sort_keys=True)

    def get(self, content: str) -> tuple[str, ...] | None:
        """The keys of its views; None if this mesh was not drawn yet, or was drawn otherwise."""
        try:
            keys = json.loads(self._path(content).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return tuple(keys)

    def put(self, content: str, keys: tuple[str, ...]) -> None:
        """Remember them."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path(content).write_text(json.dumps(keys), encoding="utf-8")

    def _path(self, content: str) -> Path:
        name = hashlib.sha256(f"{content} {self._spec}".encode())
        return self._folder / f"{name.hexdigest()}.json"
