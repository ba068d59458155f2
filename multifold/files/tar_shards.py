"""Files inside tar shards, named by their offset and size: `shards/000.tar/1536+20480/chair.0.jpg`.

A file is read directly at its offset, in any order, and nothing is unpacked. The tar header before it is
checked, so a shard that was rewritten since is noticed. Any other path is an ordinary file.
"""

import hashlib
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from multifold.bundle.bundle import file_hash
from multifold.errors import MultifoldError

PLACE = re.compile(r"(\d+)\+(\d+)")
SUFFIX = ".tar"


class TarShardError(MultifoldError):
    """A shard, or a file in one, that cannot be read; says which."""


def is_tar_member(path: Path) -> bool:
    """Whether a path names a file inside a shard."""
    return _offset_and_size(path) is not None


def read_bytes(path: Path) -> bytes:
    """A file's bytes, wherever it lies."""
    place = _offset_and_size(path)
    if place is None:
        return path.read_bytes()
    offset, size = place
    return _read_member(path, offset, size)


def content_hash(path: Path) -> str:
    """The sha256 of a file's bytes, wherever it lies."""
    return hashlib.sha256(read_bytes(path)).hexdigest() if is_tar_member(path) else file_hash(path)


def member_path(shard: Path, member: tarfile.TarInfo) -> Path:
    """What a member of a shard is called."""
    return shard / f"{member.offset_data}+{member.size}" / PurePosixPath(member.name).name


def members(shard: Path) -> Iterator[tarfile.TarInfo]:
    """Every member of a plain tar file, in order; a compressed, damaged or cut one is an error."""
    try:
        with tarfile.open(shard, "r:") as tar:
            yield from tar
            check_end(shard, tar)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise TarShardError(f"{shard} is no plain tar file, or not a whole one: {error}") from error


def check_end(shard: Path, tar: tarfile.TarFile) -> None:
    """Refuse a damaged header, which tarfile takes for the end; of a compressed file nothing is said."""
    with open(shard, "rb") as file:
        if _stated_size(file.read(tarfile.BLOCKSIZE)) is None:
            return
        file.seek(tar.offset)
        if file.read(tarfile.BLOCKSIZE).strip(b"\0"):
            last = tar.getmembers()[-1].name
            raise TarShardError(f"{shard} is damaged at byte {tar.offset:,}, behind {last}")


def _stated_size(header: bytes) -> int | None:
    """The size of a member, as its header says; None if it is no header."""
    try:
        return tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape").size
    except tarfile.TarError:
        return None


def _offset_and_size(path: Path) -> tuple[int, int] | None:
    """Where a packed file begins in its shard, and its size."""
    match = PLACE.fullmatch(path.parent.name)
    if match is None or path.parent.parent.suffix != SUFFIX:
        return None
    return int(match[1]), int(match[2])


def _read_member(path: Path, offset: int, size: int) -> bytes:
    shard = path.parent.parent
    try:
        with open(shard, "rb") as file:
            file.seek(max(0, offset - tarfile.BLOCKSIZE))
            header, data = file.read(tarfile.BLOCKSIZE), file.read(size)
    except OSError as error:
        raise TarShardError(f"{path} cannot be read: {error}") from error
    if _stated_size(header) != size or len(data) != size:
        raise TarShardError(f"{path} is not there: {shard.name} was changed or damaged since it was indexed")
    return data
