"""Removes what a collection no longer needs: an old log, unnamed pictures, empty pages."""

import os
from dataclasses import dataclass
from pathlib import Path

from index.maintenance.snapshot import named_blob_keys
from index.store.blobs import Blobs
from index.store.folder_locks import WriterLock, allow_blob_removal
from index.store.store import Store, open_blobs, refuse_missing

KEPT_CHANGES = 10_000  # changes that stay in the log, for readers that follow it


@dataclass(frozen=True)
class CompactReport:
    """What was removed."""

    changes: int
    blobs: int
    bytes: int


def compact_collection(folder: Path, kept: int = KEPT_CHANGES, bucket: str | None = None) -> CompactReport:
    """Prune the log to its last `kept` changes, remove pictures that no item names, rewrite the store."""
    refuse_missing(folder / "store.sqlite")
    lock = WriterLock(folder, f"multifold index compact, process {os.getpid()}")
    try:
        with allow_blob_removal(folder):
            blobs = open_blobs(folder, bucket)
            store = Store(folder / "store.sqlite", None)
            try:
                before = _size(folder, blobs)
                changes = store.prune(kept)
                removed = _clear(store, blobs)
                store.vacuum()
            finally:
                store.close()
            return CompactReport(changes, removed, before - _size(folder, blobs))
    finally:
        lock.release()


def _clear(store: Store, blobs: Blobs) -> int:
    blobs.sweep()
    with store.moment() as now:
        needed = set(named_blob_keys(now))
    unneeded = [key for key in blobs.all() if key not in needed]
    blobs.remove(unneeded)
    return len(unneeded)


def _size(folder: Path, blobs: Blobs) -> int:
    """Bytes of the store and the blobs."""
    return blobs.size() + sum(path.stat().st_size for path in folder.glob("store.sqlite*"))
