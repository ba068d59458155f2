"""Who may write to a collection's folder: one process at a time, and only on a local disk."""

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from index.store.reserve import keep_room
from multifold.durable import make_folder, sync_folder, temporary_path
from multifold.errors import MultifoldError

NAME = "writer.lock"
BLOBS = "blobs.lock"
LOCK_SECONDS = 0.3  # seconds; a process that only reads the holder has the lock for an instant


class LockError(MultifoldError):
    """The folder cannot be written by this process."""


class WriterLock:
    """Held from creation to `release`, or to the end of the process, however it ends."""

    def __init__(self, folder: Path, address: str | None = None) -> None:
        self._handle = _open_lock(folder / NAME)
        if not _lock(self._handle, fcntl.LOCK_EX, LOCK_SECONDS):
            holder = _read(self._handle)
            os.close(self._handle)
            raise LockError(
                f"{folder} is being written by {holder or 'another process'}. "
                "Send your changes there, stop it first, or open the collection for reading only."
            )
        keep_room(folder)
        holder = json.dumps({"address": address or f"process {os.getpid()}", "process": os.getpid()})
        os.ftruncate(self._handle, 0)
        with suppress(OSError):  # a full disk: the lock holds, and others are told of "another process"
            os.pwrite(self._handle, holder.encode(), 0)

    def release(self) -> None:
        if self._handle >= 0:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = -1


def writer_of(folder: Path) -> str | None:
    """The address of the process that writes here now, None without one."""
    handle = _opened_lock(folder)
    if handle is None:
        return None
    try:
        return None if _lock(handle, fcntl.LOCK_SH, 0.0) else _read(handle) or "another process"
    finally:
        os.close(handle)


def is_read_only(folder: Path) -> bool:
    """Whether a folder is there, on a disk that is mounted for reading."""
    return folder.is_dir() and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


class ReaderLock:
    """Held while a folder is read as if nobody could change it: the disk may be mounted for writing too."""

    def __init__(self, folder: Path) -> None:
        self._handle = _opened_lock(folder)
        if self._handle is not None and not _lock(self._handle, fcntl.LOCK_SH, LOCK_SECONDS):
            holder = _read(self._handle)
            self.release()
            raise LockError(f"{folder} is being written by {holder or 'another process'}. Ask there.")

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def keep_blobs(folder: Path) -> AbstractContextManager[None]:
    """No process removes blobs meanwhile; several may ask for that at once."""
    return _blobs_locked(folder, fcntl.LOCK_SH, "Its blobs are being cleared of what nobody needs")


def allow_blob_removal(folder: Path) -> AbstractContextManager[None]:
    """Blobs may be removed meanwhile: no process needs those that are there."""
    return _blobs_locked(folder, fcntl.LOCK_EX, "A snapshot of it is being taken")


@contextmanager
def _blobs_locked(folder: Path, mode: int, reason: str) -> Iterator[None]:
    make_folder(folder)  # where nothing but the lock may be, if the collection is elsewhere
    handle = _open_lock(folder / BLOBS)
    try:
        if not _lock(handle, mode, LOCK_SECONDS):
            raise LockError(f"{folder} is busy. {reason}: try again when that has ended.")
        yield
    finally:
        os.close(handle)


def _opened_lock(folder: Path) -> int | None:
    """The lock of a folder, only to be read; None where nobody has written yet."""
    try:
        return os.open(folder / NAME, os.O_RDONLY)
    except FileNotFoundError:
        return None


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise LockError(
            f"{path.parent} cannot be written to: {error.strerror or error}. Check its permissions and mount."
        ) from error


def _lock(handle: int, mode: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        else:
            return True


def _read(handle: int) -> str | None:
    try:
        return str(json.loads(os.pread(handle, 4096, 0))["address"])
    except (ValueError, KeyError, TypeError):
        return None  # caught between taking the lock and signing it


MARK = "folder.id"  # what a folder is called by processes that share it


def mark_of_folder(folder: Path, *, make: bool) -> str | None:
    """What tells this folder from all others, wherever it is mounted."""
    path = folder / MARK
    if make and not path.exists():
        new = temporary_path(path)
        new.write_text(uuid4().hex, encoding="ascii")
        with suppress(FileExistsError):  # another process was first
            os.link(new, path)
        new.unlink()
        sync_folder(folder)
    return path.read_text(encoding="ascii") if path.is_file() else None


MOUNTS = Path("/proc/self/mounts")
NETWORK = re.compile(
    r"9p|afs|beegfs|ceph|cifs|coda|davfs2?|gfs2?|glusterfs|gpfs|lustre|ncpfs|nfs4?|ocfs2|orangefs|smb3|smbfs"
    r"|fuse\.(ceph|cephfs|davfs2?|gcsfuse|glusterfs|goofys|juicefs|mfs|rclone|s3fs|seaweedfs|smbnetfs|sshfs)"
)


class NetworkFolderError(MultifoldError):
    """The folder lies on a file system that the embedded store cannot trust."""


def refuse_network(folder: Path, mounts: Path = MOUNTS) -> None:
    """Raise if the folder lies on a network file system. Unknown where mounts are not listed."""
    kind = file_system(folder, mounts)
    if kind is not None and NETWORK.fullmatch(kind):
        raise NetworkFolderError(
            f"{folder} lies on a network file system ({kind}), where locks and SQLite's log "
            "cannot be trusted. Put the collection on a local disk."
        )


def file_system(folder: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of the file system that holds a folder, None where the mounts are not listed."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return None
    place = folder.resolve()
    deepest = -1
    kind = None
    for line in lines:
        _, point, this, *_ = line.split(" ")
        root = Path(re.sub(r"\\([0-7]{3})", lambda escaped: chr(int(escaped[1], 8)), point))
        if place.is_relative_to(root) and len(root.parts) >= deepest:
            deepest, kind = len(root.parts), this
    return kind
