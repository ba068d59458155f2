"""One file that holds many: a plain tar that any tool can read, and that is refused unless it is whole.

Its last member holds the sha256 of every byte before it. Only regular files with the names that the reader
knows are read from it; links, folders, sparse files and long names are refused. Nothing in it is compressed,
so what it unpacks to is never more than the file itself.
"""

import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from multifold.errors import MultifoldError

END = "end.json"
BLOCK = tarfile.BLOCKSIZE
COPIED_BYTES = 1 << 20
MAX_JSON = 1 << 30  # bytes of a member that is read into memory


class ArchiveError(MultifoldError):
    """A snapshot that is damaged, or no snapshot at all."""


class ArchiveWriter:
    """Writes members one after the other; `finish` adds their checksum."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._digest = hashlib.sha256()

    def add(self, name: str, size: int, source: BinaryIO) -> None:
        """Copy `size` bytes to a member of this name."""
        self._write(_header(name, size))
        left = size
        while left:
            piece = source.read(min(COPIED_BYTES, left))
            if not piece:
                raise ArchiveError(f"{name} became shorter while it was read: is another process writing it?")
            left -= len(piece)
            self._write(piece)
        self._write(bytes(-size % BLOCK))

    def add_bytes(self, name: str, data: bytes) -> None:
        self._write(_header(name, len(data)) + data + bytes(-len(data) % BLOCK))

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the last member: a summary, and the sum of all before it."""
        self.add_bytes(END, json.dumps({**summary, "sha256": self._digest.hexdigest()}).encode())
        self._out.write(bytes(2 * BLOCK))

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        self._out.write(data)


class ArchiveMember:
    """One file of an archive, to be read once, before the next is asked for."""

    def __init__(self, name: str, size: int, archive: "ArchiveReader") -> None:
        self.name = name
        self.size = size
        self._archive = archive
        self._left = size

    def pieces(self) -> Iterator[bytes]:
        while self._left:
            piece = self._archive.take(min(COPIED_BYTES, self._left))
            self._left -= len(piece)
            yield piece

    def json(self) -> dict[str, Any]:
        if self.size > MAX_JSON:
            raise ArchiveError(f"{self._archive.path} is no snapshot: its {self.name} is too long.")
        try:
            value = json.loads(b"".join(self.pieces()))
        except ValueError:
            raise self._archive.damage(f"{self.name} is not JSON") from None
        if not isinstance(value, dict):
            raise self._archive.damage(f"{self.name} is not a JSON object")
        return value


class ArchiveReader:
    """Reads members in order, and checks the sum of all of them after the last one."""

    def __init__(self, path: Path, source: BinaryIO) -> None:
        self.path = path
        self._source = source
        self._digest = hashlib.sha256()
        self.end: dict[str, Any] = {}

    def members(self) -> Iterator[ArchiveMember]:
        """Every member but the last, which is checked instead."""
        while True:
            before = self._digest.copy()
            member = self._next()
            if member.name == END:
                self.end = member.json()
                if self.end.get("sha256") != before.hexdigest():
                    raise self.damage("its sha256 is not the one it states")
                return
            yield member
            for _ in member.pieces():  # what its reader left
                pass
            self.take(-member.size % BLOCK)

    def damage(self, what: str) -> ArchiveError:
        return ArchiveError(f"{self.path} is damaged: {what}.")

    def take(self, size: int) -> bytes:
        """The next bytes, all of them."""
        data = self._source.read(size)
        if len(data) != size:
            raise self.damage("it ends too early")
        self._digest.update(data)
        return data

    def _next(self) -> ArchiveMember:
        block = self.take(BLOCK)
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError) as error:
            raise ArchiveError(f"{self.path} is damaged, or no snapshot ({error}).") from error
        if header.type != tarfile.REGTYPE or header.size < 0:
            raise ArchiveError(f"{self.path} is no snapshot: {header.name!r} in it is not a regular file.")
        return ArchiveMember(header.name, header.size, self)


def _header(name: str, size: int) -> bytes:
    header = tarfile.TarInfo(name)
    header.size = size
    return header.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")
