"""One process writes to a collection: its lock names its address, so that others can talk to it."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from multifold.errors import MultifoldError

NAME = "writer.lock"
BLOBS = "blobs.lock"
PATIENCE = 0.3  # seconds; somebody who only asks who writes holds the lock for an instant


class LockError(MultifoldError):
    """The folder cannot be written by this process."""


class WriterLock:
    """Held from creation to `release`, or to the end of the process, however it ends."""

    def __init__(self, folder: Path, address: str | None = None) -> None:
        self._handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
        if not _lock(self._handle, fcntl.LOCK_EX, PATIENCE):
            holder = _read(self._handle)
            os.close(self._handle)
            raise LockError(
                f"{folder} is being written by {holder or 'another process'}. "
                "Send your changes there, stop it first, or open the collection for reading only."
            )
        _write(self._handle, address or f"process {os.getpid()}")

    def release(self) -> None:
        """Let another process write."""
        if self._handle >= 0:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = -1


def writer_of(folder: Path) -> str | None:
    """The address of the process that writes here now, None when nobody does."""
    try:
        handle = os.open(folder / NAME, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return None if _lock(handle, fcntl.LOCK_SH, 0.0) else _read(handle) or "another process"
    finally:
        os.close(handle)


@contextmanager
def blobs_kept(folder: Path) -> Iterator[None]:
    """Nobody removes blobs meanwhile; several may ask for that at once."""
    with _blobs_locked(folder, fcntl.LOCK_SH, "Its blobs are being cleared of what nobody needs"):
        yield


@contextmanager
def blobs_removed(folder: Path) -> Iterator[None]:
    """Blobs may be removed meanwhile: nobody counts on those that are there."""
    with _blobs_locked(folder, fcntl.LOCK_EX, "A snapshot of it is being taken"):
        yield


@contextmanager
def _blobs_locked(folder: Path, mode: int, else_told: str) -> Iterator[None]:
    handle = os.open(folder / BLOBS, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _lock(handle, mode, PATIENCE):
            raise LockError(f"{folder} is busy. {else_told}: try again when that has ended.")
        yield
    finally:
        os.close(handle)


def _lock(handle: int, mode: int, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        else:
            return True


def _write(handle: int, address: str) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps({"address": address, "process": os.getpid()}).encode(), 0)


def _read(handle: int) -> str | None:
    try:
        return str(json.loads(os.pread(handle, 4096, 0))["address"])
    except (ValueError, KeyError, TypeError):
        return None  # caught between taking the lock and signing it
