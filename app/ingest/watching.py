"""Whether anything in a folder has changed, by the names, sizes and times of its files."""

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path


def watch_folder(folder: Path, seconds: float, skip: frozenset[Path]) -> Iterator[None]:
    """Yields at once, and then after each change of the folder, once it has come to rest."""
    while True:
        before = hash_folder_state(folder, skip)
        yield
        while (now := hash_folder_state(folder, skip)) == before:
            time.sleep(seconds)
        settled = False
        while not settled:
            time.sleep(seconds)
            later = hash_folder_state(folder, skip)
            settled, now = later == now, later


def hash_folder_state(folder: Path, skip: frozenset[Path]) -> bytes:
    """Names, sizes and times of all files, as a hash."""
    digest = hashlib.sha256()
    for parent, folders, names in os.walk(folder):
        shown = [name for name in folders if not name.startswith(".")]
        folders[:] = sorted(name for name in shown if Path(parent, name).resolve() not in skip)
        for name in sorted(names):
            path = os.path.join(parent, name)
            try:
                status = os.stat(path)
            except OSError:
                continue
            digest.update(os.fsencode(path))
            digest.update(f" {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}\n".encode())
    return digest.digest()
