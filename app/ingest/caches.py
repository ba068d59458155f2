"""Two caches that spare work, and may be deleted: hashes of files, and the views that each mesh gave."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from app.ingest.sources import FileStamp, stamp_file
from multifold.bundle.bundle import ViewSpec, file_hash
from multifold.errors import MultifoldError
from renderers.mesh.formats.mesh_file import digest_content
from renderers.mesh.formats.table import EXTENSIONS

CONTENTS_FILE = "contents.sqlite"
SETTLED_NS = 2_000_000_000  # ns: a file younger than this may change again without a change of its times
COMMIT_EVERY = 500  # files after which the hashes are committed


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


class ContentCache(AbstractContextManager["ContentCache"]):
    """Hashes of files, in a small database."""

    def __init__(self, path: Path | None, settled: int = SETTLED_NS) -> None:
        self._settled = settled
        self._new = 0
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
        started = time.time_ns()
        complete = True
        files: tuple[Path, ...] = (path,)
        before = stamp_file(path)
        if path.suffix.lower() in EXTENSIONS:
            mesh = digest_content(path, within=within)
            value = mesh.hash
            files = mesh.files
            complete = not mesh.missing
        else:
            value = file_hash(path)
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
