"""Upkeep of a collection that nobody writes: an old log, unneeded pictures and empty pages are let go of."""

import os
from dataclasses import dataclass
from pathlib import Path

from index.truth.blobfolder import blobs_at
from index.truth.blobs import Blobs
from index.truth.lock import WriterLock, blobs_removed
from index.truth.store import Store, refuse_missing
from index.upkeep.snapshot import blob_keys

KEPT = 10_000  # changes that stay in the log, for readers that follow it


@dataclass(frozen=True)
class Compacted:
    """What was let go of."""

    changes: int
    blobs: int
    bytes: int


def compact(folder: Path, kept: int = KEPT, bucket: str | None = None) -> Compacted:
    """Prune the log to its last `kept` changes, remove pictures that no item names, rewrite the store."""
    refuse_missing(folder / "store.sqlite")
    lock = WriterLock(folder, f"multifold index compact, process {os.getpid()}")
    try:
        with blobs_removed(folder):
            blobs = blobs_at(folder, bucket)
            store = Store(folder / "store.sqlite", None)
            try:
                before = _size(folder, blobs)
                changes = store.prune(kept)
                removed = _clear(store, blobs)
                store.vacuum()
            finally:
                store.close()
            return Compacted(changes, removed, before - _size(folder, blobs))
    finally:
        lock.release()


def _clear(store: Store, blobs: Blobs) -> int:
    blobs.sweep()
    with store.moment() as now:
        needed = set(blob_keys(now))
    unneeded = [key for key in blobs.all() if key not in needed]
    blobs.remove(unneeded)
    return len(unneeded)


def _size(folder: Path, blobs: Blobs) -> int:
    """Bytes of the store and the blobs."""
    return blobs.size() + sum(path.stat().st_size for path in folder.glob("store.sqlite*"))
