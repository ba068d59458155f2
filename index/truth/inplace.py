"""Files that are kept where they lie: which of them held what, by its hash. Nothing is copied.

A name alone is never trusted: bytes are given out only if they still are what the key says. Only who may
write in the collection's folder can name a file here; no request to a service can.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from index.truth.blobs import SUFFIX

FILE = "in_place.sqlite"
WAIT = 60.0  # seconds for another process that writes here
CREATE = "CREATE TABLE IF NOT EXISTS files (key TEXT, path TEXT, size INTEGER, PRIMARY KEY (key, path))"


class InPlace:
    """The files that a collection keeps by reference. Any thread and process may ask."""

    def __init__(self, home: Path) -> None:
        self._file = home / FILE

    def add(self, places: Iterable[tuple[str, Path]]) -> None:
        """Note that these files hold these keys, durably and all at once."""
        rows = [(key, str(path), path.stat().st_size) for key, path in places if path.is_file()]
        if not rows:
            return
        with closing(sqlite3.connect(self._file, WAIT)) as database, database:
            database.execute(CREATE)
            database.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", rows)

    def paths(self, key: str) -> list[Path]:
        """Where it was, the last place first."""
        return [Path(path) for path, _ in self._noted(key)]

    def knows(self, key: str) -> bool:
        """Whether a file of its size lies where one was noted."""
        return any(_is_as_large(Path(path), size) for path, size in self._noted(key))

    def find(self, key: str) -> Path | None:
        """A file that still holds it."""
        places = (Path(path) for path, size in self._noted(key) if _is_as_large(Path(path), size))
        return next((path for path in places if hash_of(path) == key[:64]), None)

    def keys(self) -> Iterator[str]:
        """All that was noted."""
        yield from (key for (key,) in self._ask("SELECT DISTINCT key FROM files"))

    def forget(self, keys: Iterable[str]) -> None:
        """Let go of keys; the files stay."""
        if self._file.is_file():
            with closing(sqlite3.connect(self._file, WAIT)) as database, database:
                database.executemany("DELETE FROM files WHERE key = ?", [(key,) for key in keys])

    def _noted(self, key: str) -> list[tuple[str, int]]:
        """Paths and sizes, the last one noted first."""
        return self._ask("SELECT path, size FROM files WHERE key = ? ORDER BY rowid DESC", key)

    def _ask(self, question: str, *given: str) -> list[Any]:
        if not self._file.is_file():
            return []
        with closing(sqlite3.connect(self._file, WAIT)) as database:
            return database.execute(question, given).fetchall()


def key_of(path: Path) -> str:
    """What a file holds now, as a key."""
    suffix = path.suffix.lower()
    return f"{hash_of(path)}{suffix if SUFFIX.fullmatch(suffix) else ''}"


def hash_of(path: Path) -> str | None:
    """The sha256 of a file; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _is_as_large(path: Path, size: int) -> bool:
    try:
        return path.is_file() and path.stat().st_size == size
    except OSError:
        return False
