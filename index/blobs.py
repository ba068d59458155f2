"""Pictures, meshes and other originals in a folder, each named by the hash of what it holds."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from multifold import durable
from multifold.durable import make_folder, sync_folder
from multifold.errors import MultifoldError

SUFFIX = re.compile(r"(\.[a-z0-9]{1,16})?")
KEY = re.compile(r"[0-9a-f]{64}(\.[a-z0-9]{1,16})?")


class BlobError(MultifoldError):
    """A blob that is not there, is damaged, cannot be written, or has a name that no blob can have."""


class Blobs:
    """A content-addressed folder: equal bytes are stored once, and what `put` returned survives a crash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes, suffix: str = "") -> str:
        """Store bytes durably; their key is the sha256 in hex, then the suffix (such as '.png')."""
        if not SUFFIX.fullmatch(suffix):
            raise BlobError(f"{suffix!r} is no suffix: a dot, then up to 16 small letters or digits")
        key = hashlib.sha256(data).hexdigest() + suffix
        try:
            self._write(self.path(key), data)
        except OSError as error:
            raise BlobError(
                f"{self.folder} takes no more: {error.strerror or error}. Nothing was changed; check the "
                "disk's space and health, then try again."
            ) from error
        return key

    def _write(self, path: Path, data: bytes) -> None:
        if path.is_file():
            sync_folder(path.parent)  # another thread may have named it a moment ago
            return
        make_folder(path.parent)
        durable.write(path, data)

    def get(self, key: str) -> bytes:
        """The bytes of a key, checked against it."""
        try:
            data = self.path(key).read_bytes()
        except FileNotFoundError:
            raise BlobError(f"no blob {key}") from None
        if hashlib.sha256(data).hexdigest() != key[:64]:
            raise BlobError(
                f"the blob {key} is damaged: its bytes do not match its name. Store the item again."
            )
        return data

    def exists(self, key: str) -> bool:
        """Whether these bytes are here."""
        return self.path(key).is_file()

    def path(self, key: str) -> Path:
        """Where a blob lies, or would lie; never outside the folder."""
        if not KEY.fullmatch(key):
            raise BlobError(f"{key!r} is no blob key: 64 hex digits and perhaps a suffix")
        return self.folder / key[:2] / key

    def all(self) -> Iterator[str]:
        """Every blob there is."""
        for path in self.folder.glob("*/*"):
            if KEY.fullmatch(path.name):
                yield path.name

    def sweep(self) -> None:
        """Remove what a killed writer left half-written; for the writing process, before it writes."""
        for folder in self.folder.glob("*/"):
            durable.sweep(folder)
