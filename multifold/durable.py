"""Files that are there, whole, or not at all: written aside, fsynced, renamed, and the folder fsynced."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

TEMPORARY_PREFIX = ".writing-"


def temporary_path(path: Path) -> Path:
    """A name beside `path` that nobody else uses, for what is not whole yet."""
    return path.with_name(f"{TEMPORARY_PREFIX}{uuid4().hex}")


@contextmanager
def replace_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write to, which takes the name `path` once the block ends well, and is durable then."""
    unfinished = temporary_path(path)
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """A file of these bytes, there whole or not at all, even after a power cut."""
    with replace_file(path, mode) as out:
        out.write(data)


def remove_temporary_files(folder: Path) -> None:
    """Remove what a killed writer left half-written; for the only writer of a folder, before it writes."""
    for left in folder.glob(f"{TEMPORARY_PREFIX}*"):
        left.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, each durable in its own parent."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system lets us."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
