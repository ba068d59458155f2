"""What every place for blobs does; a blob is a picture, mesh or other original, named by the hash of its
bytes.
"""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

from multifold.errors import MultifoldError

SUFFIX = re.compile(r"(\.[a-z0-9]{1,16})?")
KEY = re.compile(r"[0-9a-f]{64}(\.[a-z0-9]{1,16})?")


class BlobError(MultifoldError):
    """A blob that is not there, is damaged, cannot be written, or has a name that no blob can have."""


class DamagedBlobError(BlobError):
    """A blob that is gone or damaged, where its place does its work."""


class Blobs(ABC):
    """Equal bytes are stored once, and what `put` returned survives a crash.

    `home` is the folder of the collection on this machine, where its locks lie. Any thread may call.
    """

    home: Path

    def put(self, data: bytes, suffix: str = "", *, copy: bool = True) -> str:
        """Store bytes durably; their key is the sha256 in hex, then the suffix (such as '.png').

        Without a copy if none is asked for, and a file that we know holds them where it lies.
        """
        key = self.key(data, suffix)
        if copy or self.in_place(key) is None:
            self.write(key, data)
        return key

    @staticmethod
    def key(data: bytes, suffix: str = "") -> str:
        """What these bytes are called."""
        if not SUFFIX.fullmatch(suffix):
            raise BlobError(f"{suffix!r} is no suffix: a dot, then up to 16 small letters or digits")
        return hashlib.sha256(data).hexdigest() + suffix

    def get(self, key: str) -> bytes:
        """The bytes of a key, checked against it."""
        data = self.read(check_key(key))
        if hashlib.sha256(data).hexdigest() != key[:64]:
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
        """The file of somebody else's folder that still holds it, if it is kept by reference."""
        return None

    @abstractmethod
    def all(self) -> Iterator[str]:
        """Every blob there is."""

    @abstractmethod
    def remove(self, keys: Iterable[str]) -> None:
        """Let go of blobs; those that are not there are not missed."""

    @abstractmethod
    def sweep(self) -> None:
        """Remove what a killed writer left half-written; for the only writer, before it writes."""

    @abstractmethod
    def size(self) -> int:
        """How much all of them take."""


def check_key(key: str) -> str:
    """The key itself, if a blob can be called so."""
    if not KEY.fullmatch(key):
        raise BlobError(f"{key!r} is no blob key: 64 hex digits and perhaps a suffix")
    return key
