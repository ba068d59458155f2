"""One collection of a service: what requests, jobs and probes do with its items."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from app.collections.changes import ChangeQueue
from app.collections.duplicates import Deduplicator
from app.collections.evidence import EvidenceFitter
from app.collections.vocabulary import PayloadVocabulary
from app.collections.workers import Workers
from app.concurrency.batching import UNIT_SECONDS, Batcher
from app.encoding.observations import MeshData, MeshPath, ObservationEncoder
from app.errors import ApiError
from app.ingest import pipeline
from app.ingest.originals import OriginalFiles, find_stored_mesh
from app.ingest.pipeline import Encoded, EncodedItem, PreparedItem, Written, WrittenItem
from app.ingest.sources import ItemSource
from app.queries.encoding import EncodedPart
from app.queries.parts import ItemQueryPart, QueryPart
from index.collection import Collection
from index.search.model import EvidenceModel
from index.search.query import Query
from index.store.filters import Filter, parse_filter, ranges_of
from index.store.item_rows import ItemError
from index.store.keys import describe_keys, distinct_texts
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.types import SIDE_OF, Feature, Hit, Item, Mix, Observation

HITS_OF_A_COST = 64  # so many more hits cost as much as another search
COST_OF_EXPLAINING = 3.0  # some hits, see `app/search/insight.py`
CLUSTER_SEARCHERS = 4  # threads that wait for Milvus and the database side by side; FAISS works in one


SearchStep: TypeAlias = Query | Callable[[], list[Hit]]  # or what is done with some hits


def search_cost(step: SearchStep) -> float:
    """What a step costs, in searches with one part for a few hits."""
    if callable(step):
        return COST_OF_EXPLAINING
    parts = len(step.vector.parts) if isinstance(step.vector, Mix) else 1
    return parts + (step.offset + step.limit) / HITS_OF_A_COST


def merge_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The target with the patch's values in place of its own; null takes a key away, objects go inwards."""
    result = {key: value for key, value in target.items() if key not in patch}
    for key, value in patch.items():
        if isinstance(value, Mapping):
            inner = target.get(key)
            result[key] = merge_patch(inner if isinstance(inner, Mapping) else {}, value)
        elif value is not None:
            result[key] = value
    return result


class CollectionService:
    """One collection at work: its encoder, what is fitted on it, and its queue of searches.

    What is awaited belongs to an event loop. The other methods may be called from several threads.
    """

    def __init__(
        self, workers: Workers, collection: Collection, observer: ObservationEncoder, name: str, home: Path
    ) -> None:
        settings = workers.settings
        self.workers = workers
        self.settings = settings
        self.collection = collection
        self.observer = observer
        self.name = name
        self.home = home  # the folder of the collection
        self.writing = threading.RLock()
        self.evidence = EvidenceFitter(observer, collection)
        self.deduplicator = Deduplicator(collection)
        self.run = workers.reading.run  # reads in a thread
        self._vocabulary: tuple[int, PayloadVocabulary] | None = None  # as of a version of the collection
        self._query_encoder = workers.query_encoder(observer)
        self.searches = self._search_queue(CLUSTER_SEARCHERS if settings.milvus else 1)
        # Those that wait for a cluster keep no others waiting.
        self.strong_searches = self._search_queue(1) if settings.milvus else self.searches
        self.changes = ChangeQueue(
            collection, self.put, self.writing, settings, workers.telemetry.watch("write")
        )
        collection.on_change = self._note_change
        self._note_change()  # what another process wrote before

    @property
    def encoder(self) -> Encoder:
        return self.observer.encoder

    def _search_queue(self, threads: int) -> Batcher[SearchStep, list[Hit]]:
        return Batcher(
            self._search,
            most=self.settings.batch,
            room=self.settings.queue,
            threads=threads,
            watch=self.workers.telemetry.watch("search"),
            cost=search_cost,
            unit_seconds=UNIT_SECONDS,
        )

    def _search(self, steps: Sequence[SearchStep]) -> list[list[Hit]]:
        """The hits of queries, which are searched together, and of other steps."""
        queries = [step for step in steps if isinstance(step, Query)]
        found = iter(self.collection.search_many(queries) if queries else ())
        return [next(found) if isinstance(step, Query) else step() for step in steps]

    def evidence_model(self) -> EvidenceModel:
        """How evidence is weighted now; it is fitted again if the collection has grown, whoever wrote."""
        if self.collection.version >= self.evidence.next_version:
            self.evidence.fit_aside()
        return self.evidence.model

    def _note_change(self) -> None:
        self.evidence.changed = time.monotonic()
        self.evidence_model()

    async def vocabulary(self) -> PayloadVocabulary:
        now, collection = self.collection.version, self.collection
        if self._vocabulary is None or self._vocabulary[0] != now:
            keys = await self.run(lambda: collection.read(describe_keys), admitted=True)
            self._vocabulary = (
                now,
                PayloadVocabulary(keys, lambda wanted: collection.read(distinct_texts, wanted)),
            )
        return self._vocabulary[1]

    async def filter_of(self, raw: Mapping[str, Any] | None) -> Filter | None:
        """A filter as it is written; an empty one lets everything through."""
        where = parse_filter(raw) if raw else None
        if where is not None and any(ranges_of(where)):
            (await self.vocabulary()).check_ranges(where)
        return where

    def item(self, name: str) -> Item:
        item = self.collection.get(name)
        if item is None:
            raise ApiError(404, "not_found", f"there is no item {name!r}")
        return item

    async def encode(self, part: QueryPart) -> EncodedPart:
        """The feature and the index vector of a query part."""
        if isinstance(part, ItemQueryPart):
            return await self.run(lambda: self._query_encoder.of_item(self.item(part.id), part.sides))
        return await self._query_encoder.encode(part)

    async def prepare(self, source: ItemSource, originals: OriginalFiles | None = None) -> EncodedItem:
        """Render and encode an item; it is not written yet. Originals of uploads are copied."""
        span = self.workers.telemetry.tracing.span
        drawn = None
        mesh = source.mesh
        if mesh is not None:
            with span("draw", collection=self.name):
                drawn = await self.workers.render.run(lambda lane: self.observer.draw(mesh, lane), mesh.size)
        if originals is None:
            originals = OriginalFiles(self.collection.blobs, copy=True, spared=self.settings.spared)
            if isinstance(mesh, MeshData) and self.settings.keep_files:
                source = replace(source, files=(mesh,))
        with span("make", collection=self.name):
            return await self.workers.making.run(
                lambda: pipeline.make_item(self.observer, originals, source, drawn), admitted=mesh is not None
            )

    async def write(self, items: Sequence[Encoded], *, of_job: bool = False) -> list[Written]:
        """Write items that were prepared; those of others that wait are written with them."""
        names = [one.item.id for one in items if isinstance(one, EncodedItem)]
        return await self.changes.write(names, lambda: items, admitted=True, of_job=of_job)

    def put(self, items: Sequence[Encoded]) -> list[Written]:
        """Write items together, and say what became of each; one that failed before stays an error."""
        ready = [one for one in items if isinstance(one, EncodedItem)]
        with self.writing:
            written = iter(pipeline.write_items(self.collection, ready) if ready else [])
        return [next(written) if isinstance(one, EncodedItem) else one for one in items]

    async def patch(
        self, name: str, texts: Sequence[str] | None, payload: Mapping[str, Any] | None
    ) -> WrittenItem:
        """Change captions or payload of an item; the rest of it stays."""
        captions = None
        if texts is not None:
            prepared = PreparedItem(name, tuple(texts))
            self.changes.refuse_if_full()
            captions = await self.workers.making.run(lambda: pipeline.encode_item(self.observer, prepared))
        (written,) = await self.changes.write(
            [name], lambda: [self._patched(name, captions, payload or {})], admitted=captions is not None
        )
        if isinstance(written, MultifoldError):
            raise written
        return written

    def _patched(self, name: str, captions: EncodedItem | None, payload: Mapping[str, Any]) -> EncodedItem:
        former = self.item(name)
        if captions is not None:  # the former ones are no longer needed, be they damaged
            former = replace(former, damaged=tuple(o for o in former.damaged if o.kind != "caption"))
        former = self.repaired(former)
        item = replace(former, payload=merge_patch(former.payload, payload))
        if captions is None:
            return EncodedItem(item)
        others = (one for one in former.observations if one.kind != "caption")
        return EncodedItem(
            replace(item, observations=(*captions.item.observations, *others)), captions.warnings
        )

    def repair(self, name: str) -> None:
        """Write an item again as far as it is known: its damaged features from its originals."""
        with self.writing:
            if (item := self.collection.get(name)) is not None:
                self.collection.upsert([self.repaired(item)])

    def repaired(self, item: Item) -> Item:
        """An item with its damaged features encoded again."""
        if not item.damaged:
            return item

        def place(one: Observation) -> tuple[int, int]:
            return list(SIDE_OF).index(one.kind), one.index

        repaired = [replace(one, feature=self._encode_again(item, one)) for one in item.damaged]
        every = [*item.observations, *repaired]
        return replace(item, observations=tuple(sorted(every, key=place)), damaged=())

    def _encode_again(self, item: Item, damaged: Observation) -> Feature:
        """A feature, from its text, its picture, or the mesh of its item."""
        blobs = self.collection.blobs
        feature: Feature | None = None
        if damaged.text is not None:
            feature = self.encoder.texts([damaged.text]).features[0]
        elif damaged.blob is not None:
            feature = self.encoder.pixels(self.observer.look(blobs.get(damaged.blob))[None])[0]
        elif damaged.kind == "points" and (mesh := find_stored_mesh(blobs, self.home, item)) is not None:
            feature = self.encoder.points([self.observer.sample(mesh).rows()])[0]
        if feature is not None:
            return feature
        raise ItemError(f"Item {item.id!r}: {damaged.kind} {damaged.index} is damaged: write the item again.")

    def delete(self, ids: Sequence[str]) -> int:
        with self.writing:
            return self.collection.delete(ids)

    def delete_where(self, where: Filter) -> int:
        with self.writing:
            return self.collection.delete_where(where)

    def stored_mesh(self, item: Item) -> MeshData | MeshPath:
        """The mesh that the views of an item are of."""
        mesh = find_stored_mesh(self.collection.blobs, self.home, item)
        if mesh is None:
            raise ApiError(422, "no_original", f"the mesh of the item {item.id!r} is not kept here")
        return mesh

    def audit(self, action: str, ids: Sequence[str], count: int) -> None:
        self.workers.audit.record(action, self.name, ids, count, self.collection.version)

    def close(self) -> None:
        """Answer what was accepted, then close the collection."""
        self.searches.close()
        self.strong_searches.close()
        self.changes.close()
        self.collection.close()
