"""When has a folder changed? Asked by looking, again and again: it works on every file system."""

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path


def visits(folder: Path, seconds: float, skip: frozenset[Path]) -> Iterator[None]:
    """Yields at once, and then each time the folder is not what it was before the last visit, and rests."""
    while True:
        known = glance(folder, skip)
        yield
        while (now := glance(folder, skip)) == known:
            time.sleep(seconds)
        while (later := _after(folder, seconds, skip)) != now:
            now = later


def glance(folder: Path, skip: frozenset[Path]) -> bytes:
    """Names, sizes and times of all files, as a hash."""
    digest = hashlib.sha256()
    for here, inside, names in os.walk(folder):
        inside[:] = sorted(
            name for name in inside if not name.startswith(".") and Path(here, name).resolve() not in skip
        )
        for name in sorted(names):
            try:
                seen = os.stat(os.path.join(here, name))
            except OSError:
                continue
            digest.update(os.fsencode(os.path.join(here, name)))
            digest.update(f" {seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns}\n".encode())
    return digest.digest()


def _after(folder: Path, seconds: float, skip: frozenset[Path]) -> bytes:
    time.sleep(seconds)
    return glance(folder, skip)
