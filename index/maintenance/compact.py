"""Removes what a collection no longer needs: an old log, unnamed pictures, empty pages."""

import os
from contextlib import ExitStack, closing
from dataclasses import dataclass

from index.contracts import KEPT_CHANGES, CollectionLocation
from index.maintenance.snapshot import named_blob_keys
from index.store.blobs import Blobs
from index.store.checksums import find_damage
from index.store.database import StoreError
from index.store.folder_locks import WriterLock, allow_blob_removal
from index.store.store import Store, open_blobs, refuse_missing


@dataclass(frozen=True)
class CompactReport:
    changes: int
    blobs: int
    bytes: int


def compact_collection(place: CollectionLocation, kept: int = KEPT_CHANGES) -> CompactReport:
    """Prune the log to its last `kept` changes, remove pictures that no item names, rewrite the store.

    Other processes may be about to name a picture of a shared store: there they all stay.
    """
    with ExitStack() as stack:
        if place.database is None:
            refuse_missing(place.folder / "store.sqlite")
            writer = f"multifold index compact, process {os.getpid()}"
            stack.callback(WriterLock(place.folder, writer).release)
            stack.enter_context(allow_blob_removal(place.folder))
        store = stack.enter_context(closing(Store(place.items, None)))
        store_size = store.size()
        freed = 0
        removed = 0
        changes = store.prune(kept)
        if place.database is None:
            removed, freed = _clear(store, open_blobs(place.folder, place.bucket))
        store.vacuum()
        return CompactReport(changes, removed, freed + store_size - store.size())


def _clear(store: Store, blobs: Blobs) -> tuple[int, int]:
    """How many pictures were removed, and their bytes."""
    before = blobs.size()
    blobs.sweep()
    with store.moment() as now:
        if damage := next((one for one in find_damage(now) if not one.mendable), None):
            raise StoreError(
                f"{damage}. It may have named a picture, so none is removed: write what "
                "`multifold index verify` lists again, or restore a snapshot."
            )
        needed = set(named_blob_keys(now))
    unneeded = [key for key in blobs.all() if key not in needed]
    blobs.remove(unneeded)
    return len(unneeded), before - blobs.size()
