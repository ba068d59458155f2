"""Blobs: pictures, meshes and other originals, named by the hash of their bytes.

They are in a folder, or kept by reference where their files are. A name alone is never trusted: bytes are
given out only if they still are what the key says. Only who may write in the collection's folder can name a
file here; no request to a service can."""

import hashlib
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from multifold import durable
from multifold.bundle.bundle import file_hash
from multifold.durable import make_folder, sync_folder
from multifold.errors import MultifoldError

SUFFIX = re.compile(r"(\.[a-z0-9]{1,16})?")
KEY = re.compile(r"[0-9a-f]{64}(\.[a-z0-9]{1,16})?")


class BlobKey(str):
    """The name of a blob: the sha256 of its bytes in hex, then a suffix such as '.png'."""

    __slots__ = ()

    @property
    def hash(self) -> str:
        return self[:64]

    @property
    def suffix(self) -> str:
        return self[64:]


class BlobError(MultifoldError):
    """A blob that is not there, is damaged, cannot be written, or has a name that no blob can have."""


class DamagedBlobError(BlobError):
    """A blob that is gone or damaged, while its place works."""


class Blobs(ABC):
    """Equal bytes are stored once, and what `put` returned survives a crash.

    `home` is the folder of the collection on this machine, where its locks are. Any thread may call.
    """

    home: Path

    def put(self, data: bytes, suffix: str = "", *, copy: bool = True) -> BlobKey:
        """Store bytes durably. Without a copy if none is asked for, and a known file holds them in place."""
        key = self.key(data, suffix)
        if copy or self.in_place(key) is None:
            self.write(key, data)
        return key

    @staticmethod
    def key(data: bytes, suffix: str = "") -> BlobKey:
        """What these bytes are called."""
        if not SUFFIX.fullmatch(suffix):
            raise BlobError(f"{suffix!r} is no suffix: a dot, then up to 16 small letters or digits")
        return BlobKey(hashlib.sha256(data).hexdigest() + suffix)

    def get(self, key: str) -> bytes:
        """The bytes of a key, checked against it."""
        data = self.read(check_key(key))
        if hashlib.sha256(data).hexdigest() != BlobKey(key).hash:
            raise DamagedBlobError(
                f"the blob {key} is damaged: its bytes do not match its name. Store the item again."
            )
        return data

    @abstractmethod
    def write(self, key: str, data: bytes) -> None:
        """Store the bytes of a key durably, or raise and change nothing."""

    @abstractmethod
    def read(self, key: str) -> bytes:
        """The bytes of a key as they are stored."""

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Whether these bytes are here."""

    def file(self, key: str) -> Path | None:  # noqa: ARG002 (a place without files)
        """The file that holds it, if there is one on this machine."""
        return None

    def in_place(self, key: str) -> Path | None:  # noqa: ARG002 (a place that keeps copies alone)
        """The user's own file that still holds it, if it is kept by reference."""
        return None

    @abstractmethod
    def all(self) -> Iterator[str]:
        """Every blob there is."""

    @abstractmethod
    def remove(self, keys: Iterable[str]) -> None:
        """Remove blobs; those that are not there are ignored."""

    @abstractmethod
    def sweep(self) -> None:
        """Remove what a killed writer left half-written; for the only writer, before it writes."""

    @abstractmethod
    def size(self) -> int:
        """How much all of them take."""


def check_key(key: str) -> BlobKey:
    """The key, if a blob can be called so."""
    if not KEY.fullmatch(key):
        raise BlobError(f"{key!r} is no blob key: 64 hex digits and perhaps a suffix")
    return BlobKey(key)


IN_PLACE_FILE = "in_place.sqlite"
WAIT = 60.0  # seconds for another process that writes here
CREATE = "CREATE TABLE IF NOT EXISTS files (key TEXT, path TEXT, size INTEGER, PRIMARY KEY (key, path))"


class InPlaceFiles:
    """The files that a collection keeps by reference. Any thread and process may ask."""

    def __init__(self, home: Path) -> None:
        self._file = home / IN_PLACE_FILE

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
        return [path for path, _ in self._places(key)]

    def possible(self, key: str) -> list[Path]:
        """The files of its size that are where one was noted."""
        return [path for path, size in self._places(key) if _size_of(path) == size]

    def find(self, key: str) -> Path | None:
        """A file that still holds it."""
        return next((path for path in self.possible(key) if hash_of(path) == BlobKey(key).hash), None)

    def keys(self) -> Iterator[str]:
        yield from (key for (key,) in self._query("SELECT DISTINCT key FROM files"))

    def forget(self, keys: Iterable[str]) -> None:
        if self._file.is_file():
            with closing(sqlite3.connect(self._file, WAIT)) as database, database:
                database.executemany("DELETE FROM files WHERE key = ?", [(key,) for key in keys])

    def _places(self, key: str) -> list[tuple[Path, int]]:
        rows = self._query("SELECT path, size FROM files WHERE key = ? ORDER BY rowid DESC", key)
        return [(Path(path), size) for path, size in rows]

    def _query(self, statement: str, *values: str) -> list[Any]:
        if not self._file.is_file():
            return []
        with closing(sqlite3.connect(self._file, WAIT)) as database:
            return database.execute(statement, values).fetchall()


def key_of(path: Path) -> BlobKey:
    """What a file holds now, as a key."""
    suffix = path.suffix.lower()
    return BlobKey(f"{hash_of(path)}{suffix if SUFFIX.fullmatch(suffix) else ''}")


def hash_of(path: Path) -> str | None:
    """The sha256 of a file; None if it cannot be read."""
    try:
        return file_hash(path)
    except OSError:
        return None


def _size_of(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


class FolderBlobs(Blobs):
    """One file a blob, in subfolders by the first two digits; what is kept in place has none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder.parent
        self.places = InPlaceFiles(self.home)

    def write(self, key: str, data: bytes) -> None:
        """A file that is there whole or not at all; one that is there already is kept."""
        path = self.path(key)
        try:
            if path.is_file():
                sync_folder(path.parent)  # another thread may have named it a moment ago
                return
            make_folder(path.parent)
            durable.write_file(path, data)
        except OSError as error:
            raise BlobError(
                f"{self.folder} takes no more: {error.strerror or error}. Nothing was changed; check the "
                "disk's space and health, then try again."
            ) from error

    def read(self, key: str) -> bytes:
        """What its file holds, or the one that holds it in place."""
        try:
            return (self.file(key) or self.path(key)).read_bytes()
        except FileNotFoundError:
            if not (paths := self.places.paths(key)):
                raise DamagedBlobError(f"no blob {key}") from None
        raise DamagedBlobError(
            f"the file {paths[0].name}, which was not copied, is gone or holds something else: put it back, "
            "or ingest its folder again"
        )

    def exists(self, key: str) -> bool:
        return self.path(key).is_file() or bool(self.places.possible(key))

    def path(self, key: str) -> Path:
        """The path of a blob, stored or not; never outside the folder."""
        return self.folder / check_key(key)[:2] / key

    def file(self, key: str) -> Path | None:
        return path if (path := self.path(key)).is_file() else self.in_place(key)

    def in_place(self, key: str) -> Path | None:
        return self.places.find(check_key(key))

    def all(self) -> Iterator[str]:
        names = {path.name for path in self.folder.glob("*/*") if KEY.fullmatch(path.name)}
        yield from names.union(self.places.keys())

    def remove(self, keys: Iterable[str]) -> None:
        """Unlink our own files; those in place stay, and are forgotten."""
        keys = list(keys)
        for key in keys:
            self.path(key).unlink(missing_ok=True)
        self.places.forget(keys)

    def sweep(self) -> None:
        for folder in self.folder.glob("*/"):
            durable.remove_temporary_files(folder)

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


READERS = 16


def move_blobs(
    keys: Sequence[str], source: Blobs, target: Blobs, on_progress: Callable[[int], object] = lambda _: None
) -> list[str]:
    """Copy blobs; returns those that are missing or damaged in the source. A place that fails ends it."""

    def copy(key: str) -> str | None:
        if not target.exists(key):
            try:
                data = source.get(key)
            except DamagedBlobError:
                return key
            target.write(key, data)
        on_progress(1)
        return None

    with ThreadPoolExecutor(READERS) as movers:
        return [key for key in movers.map(copy, keys) if key is not None]
