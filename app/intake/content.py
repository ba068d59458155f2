"""What files hold, by hash; a file whose size and times are as they were is not read again.

Derived: without the remembered hashes, every file is read once more.
"""

import hashlib
import json
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from multifold.errors import MultifoldError
from renderers.content import content
from renderers.files.container import EXTENSIONS

Stamp: TypeAlias = tuple[
    str, int, int, int, int
]  # path, size, changed, changed in any way, number on the disk

SETTLED = 2_000_000_000  # ns: a file younger than this may change again without a change of its times
OFTEN = 500  # files after which the hashes are written down


@dataclass(frozen=True)
class Known:
    """The hash of a picture, or of a mesh with the files it names, and how these files were then."""

    hash: str
    stamps: tuple[Stamp, ...]

    def is_as_it_was(self) -> bool:
        """Whether none of the files has changed since."""
        try:
            return all(stamp(Path(one[0])) == one for one in self.stamps)
        except OSError:
            return False


class Contents:
    """Hashes of files, remembered in one small database."""

    def __init__(self, path: Path | None, settled: int = SETTLED) -> None:
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

    def of(self, path: Path, within: Path | None = None) -> Known:
        """What a picture or a mesh holds now; a mesh may name files of the folder `within`."""
        row = self._database.execute("SELECT known FROM files WHERE path = ?", (str(path),)).fetchone()
        if row is not None:
            value, stamps = json.loads(row[0])
            known = Known(value, tuple(map(tuple, stamps)))
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

    def __enter__(self) -> "Contents":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _create(self) -> None:
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, known TEXT)")

    def _read(self, path: Path, within: Path | None) -> Known:
        self.read += 1
        started, whole = time.time_ns(), True
        files: tuple[Path, ...] = (path,)
        before = stamp(path)
        if path.suffix.lower() in EXTENSIONS:
            mesh = content(path, within=within)
            value, files, whole = mesh.hash, mesh.files, not mesh.missing
        else:
            with open(path, "rb") as source:
                value = hashlib.file_digest(source, "sha256").hexdigest()
        known = Known(value, (before, *map(stamp, files[1:])))
        youngest = max(max(one[2], one[3]) for one in known.stamps)
        if whole and youngest < started - self._settled and known.is_as_it_was():
            self._remember(path, known)
        return known

    def _remember(self, path: Path, known: Known) -> None:
        row = (str(path), json.dumps([known.hash, known.stamps]))
        self._database.execute("INSERT OR REPLACE INTO files VALUES (?, ?)", row)
        self._new += 1
        if self._new % OFTEN == 0:
            self._database.commit()


def stamp(path: Path) -> Stamp:
    """What a glance at a file tells."""
    seen = path.stat()
    return str(path), seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino
