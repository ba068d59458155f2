"""`multifold index import` and `build`."""

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing
from pathlib import Path

from index.cluster.contracts import cluster_from_environment
from index.collection import Collection
from index.commands.common import (
    CollectionBusyError,
    ProbedSpace,
    open_collection,
    progress_bar,
    service_of,
    space_of,
)
from index.commands.inspect_collection import print_reports
from index.contracts import CollectionLocation, IndexPlan, Space
from index.embedding_files import EmbeddingRows, ImportFileError, read_embeddings
from index.engines.saved_engines import is_saved
from index.plain_space import PlainSpace
from index.registry import stored_vector_id
from index.store import browse
from index.store.folder_locks import WriterLock
from index.store.item_rows import check_vectors
from index.store.store import Store, check_items
from multifold.bundle.encoder import Encoder
from multifold.types import Item

SECOND = 1.0  # between two looks at how far it is


class StoreImport:
    """Writes to a store without an index: services make that of a shared one; else it is made afterwards."""

    def __init__(self, place: CollectionLocation, space: Space) -> None:
        self._lock = None if place.database else WriterLock(place.folder, f"an import, process {os.getpid()}")
        self._space = space
        self._store = Store(place.items, space.vector_id)

    def upsert(self, items: Sequence[Item]) -> int:
        """Store all items or none; returns the collection's new version."""
        check_items(items, self._store.feature_length)
        check_vectors(items, self._space)
        return self._store.upsert(items)

    def differing(self, items: Sequence[Item]) -> list[Item]:
        """Those of the items that are not stored just so."""
        return self._store.differing(items)

    def count(self) -> int:
        with self._store.moment() as now:
            return browse.count(now)

    @property
    def version(self) -> int:
        return self._store.version()

    def close(self) -> None:
        self._store.close()
        if self._lock is not None:
            self._lock.release()


def import_(args: argparse.Namespace) -> int:
    """Import features computed in bulk, or embeddings of your own."""
    if writer := service_of(args.place):  # before hours of reading
        raise CollectionBusyError(f"{args.place.folder} is being written by {writer}; stop it first.")
    with closing(read_embeddings(args.source, args.ids, args.side, args.manifest)) as embeddings:
        return _import_rows(args, embeddings)


def _import_rows(args: argparse.Namespace, embeddings: EmbeddingRows) -> int:
    space = _space(args, embeddings)
    if embeddings.vector_id not in (None, space[0].vector_id):
        raise ImportFileError(
            f"{args.source} holds features of {embeddings.vector_id!r}, the collection has "
            f"{space[0].vector_id!r}: they do not compare."
        )
    _check_points(args.source, space[0], embeddings)
    print(f"importing {embeddings.count} rows from {args.source} into {args.place.shown}", flush=True)
    opened: AbstractContextManager[Collection | StoreImport]
    shared = args.place.database is not None
    anew = cluster_from_environment() is None and (shared or not is_saved(args.place.folder / "index"))
    if anew and not shared and stored_vector_id(args.place) is None:
        open_collection(args, space).close()  # so it is made
    opened = closing(StoreImport(args.place, space[0])) if anew else open_collection(args, space)
    with opened as target, progress_bar(total=embeddings.count, unit="row") as bar:
        written = 0
        for items in embeddings.items():
            if new := target.differing(items):
                target.upsert(new)
            written += len(new)
            bar.update(sum(len(item.observations) for item in items))
        bar.close()
        if isinstance(target, Collection):
            _seal(target)
        print(f"{written} items written; those that were there already were left as they are")
        print(f"the collection holds {target.count()} items, version {target.version}")
    if anew and not shared:
        with open_collection(args, space) as collection:  # its index is derived as a whole
            _seal(collection)
    return 0


def _check_points(source: Path, space: Space, embeddings: EmbeddingRows) -> None:
    """Refuse shapes without points that the encoder reads: they would rank behind those that have some."""
    if not isinstance(space, Encoder) or space.bundle.points is None:
        return
    if (item := embeddings.lacking("points")) is not None:
        raise ImportFileError(
            f"{source} has views and no points of the item {item!r}, and the encoder "
            f"{space.bundle.name} knows shapes by these too. Compute both: `multifold encode`."
        )


def _seal(collection: Collection) -> None:
    """Wait until the indexes of all rows and texts are built, and show how far the first is."""
    with ThreadPoolExecutor(1) as worker, progress_bar(desc="indexing", unit="row") as bar:
        settled = worker.submit(collection.engines.settle)
        while not settled.done():
            sealed, bar.total = collection.engines.sealed_rows()
            bar.update(sealed - bar.n)
            wait([settled], SECOND)
    settled.result()
    collection.texts.settle()


def _space(args: argparse.Namespace, embeddings: EmbeddingRows) -> ProbedSpace:
    """The collection's own space; a new one is plain where a metric is named."""
    vector_id = stored_vector_id(args.place)
    plain = PlainSpace(args.metric, embeddings.dim) if args.metric else None
    if plain and vector_id not in (None, plain.vector_id):
        raise ImportFileError(f"{args.place.shown} is a collection of {vector_id}: leave out --metric.")
    return (plain, {}) if plain else space_of(vector_id, args.bundle)


def build(args: argparse.Namespace) -> int:
    """Build the index to a type and a recall, which it keeps from then on."""
    plan = IndexPlan(args.type, args.device, args.recall, memory=args.memory)
    print(f"building the index of {args.place.shown}: {plan.type} at recall {plan.recall}", flush=True)
    with open_collection(args, plan=plan) as collection:
        reports = collection.engines.settle()
        collection.ask_for(plan)
    print_reports({" ".join(segment): some for segment, some in reports.items()})
    return 0
