"""The runtime of a service on one event loop, and of each of its collections.

Encoding and searching are batched, the rest runs in bounded pools. Rendering has a pool of its own, as it
takes seconds and must not keep others waiting."""

import asyncio
import base64
import json
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TypeAlias

from starlette.concurrency import run_in_threadpool

from app.collections.collections import Collections, CollectionService
from app.collections.confidence import UNCALIBRATED
from app.concurrency.batching import Batcher
from app.concurrency.pools import RenderPool, ThreadPool
from app.encoding.observations import MeshData, MeshPath, ObservationEncoder
from app.errors import ApiError
from app.ingest.originals import OriginalFiles, find_stored_mesh
from app.ingest.pipeline import Encoded, EncodedItem, Written
from app.ingest.sources import ItemSource
from app.ingest.uploads import FileFetcher
from app.operations.logs import AuditLog
from app.operations.probes import DriftMonitor
from app.operations.telemetry import Telemetry
from app.runtime.folder import FolderFollower
from app.runtime.jobs import JobHandler, JobRunner
from app.search import insight
from app.search.duplicates import Deduplicator
from app.search.query import (
    CollectionQueryEncoder,
    ImageQueryPart,
    MeshQueryPart,
    QueryEncoder,
    QueryPart,
    SearchHits,
    WeightedParts,
    check_confidence,
    check_examples,
    is_single,
    matches_well,
    narrow_filter,
    passes_thresholds,
    search_request,
    side_of,
)
from index.names import DEFAULT, MAIN
from index.search.search import SearchRequest
from index.store.filters import Filter
from multifold.types import Hit, Item
from multifold.wire.search import MAX_OFFSET, SearchOptions

JobHandlerFactory: TypeAlias = Callable[["Runtime"], Mapping[str, JobHandler]]  # the handlers by kind of job
DUPLICATE_REACH_FACTOR, DUPLICATE_REACH_LIMIT = 2, 2_000  # hits that are compared to fold duplicates
CLUSTER_SEARCHERS = 4  # threads that wait for Milvus and the database side by side; FAISS works in one
OVERLAP = 50  # ranks by which a hit may have moved
HEAD = 4_096  # bytes of a file that tell it from another
PAGE_FIELDS = ("limit", "offset", "after")  # of a search; the others say what it is a page of
CURSOR_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class SearchPage:
    """Which hits of a ranking are asked for: from an offset, or after the last hit of the page before.

    A cursor names that hit. If the collection changed meanwhile, the page begins behind the hit's present
    rank, if that is at most `OVERLAP` ranks away.
    """

    asked: int  # a checksum of the query: a cursor belongs to it
    place: int  # hits before the page
    limit: int
    last: str | None = None  # the last of them, if a cursor names it

    @classmethod
    def of(cls, parts: WeightedParts, options: SearchOptions) -> "SearchPage":
        """The page that a search asks for."""
        asked = _checksum(parts, options)
        if options.after is None:
            return cls(asked, options.offset, options.limit)
        query, place, last = _read_cursor(options.after)
        if query != asked:
            raise ApiError(422, "bad_cursor", "'after' belongs to another search; begin without it")
        return cls(asked, place, options.limit, last)

    @property
    def window(self) -> tuple[int, int]:
        """The offset and the limit of the hits among which the page lies."""
        if self.last is None:
            return self.place, self.limit
        first = max(0, self.place - OVERLAP)
        return first, self.place - first + self.limit + OVERLAP

    def cut(self, hits: Sequence[Hit], first: int) -> tuple[list[Hit], str | None]:
        """The page out of the hits from a rank on, and the cursor of the following one."""
        ids = [hit.id for hit in hits]
        begin = ids.index(self.last) + 1 if self.last in ids else self.place - first
        page = [*hits[begin : begin + self.limit]]
        end = first + begin + len(page)
        more = len(page) == self.limit and end <= MAX_OFFSET
        return page, _write_cursor(self.asked, end, page[-1].id) if more else None


def _write_cursor(asked: int, place: int, last: str) -> str:
    text = CURSOR_JSON.encode([asked, place, last])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[int, int, str]:
    try:
        asked, place, last = json.loads(base64.urlsafe_b64decode(f"{cursor}{'=' * (-len(cursor) % 4)}"))
        if isinstance(asked, int) and isinstance(last, str) and 0 < place <= MAX_OFFSET:
            return asked, int(place), last
    except (ValueError, TypeError, RecursionError):
        pass
    raise ApiError(422, "bad_cursor", "'after' is not the 'next' of an answer")


def _checksum(parts: WeightedParts, options: SearchOptions) -> int:
    asked = {one.name: getattr(options, one.name) for one in fields(SearchOptions)}
    described = [repr([pair for pair in asked.items() if pair[0] not in PAGE_FIELDS]).encode()]
    described += [b"%r %b" % (weight, _describe(part)) for part, weight in parts]
    return zlib.crc32(b"\0".join(described))


def _describe(part: QueryPart) -> bytes:
    match part:
        case ImageQueryPart(data=data):
            return b"%d %b" % (len(data), data[:HEAD])
        case MeshQueryPart(mesh=mesh):
            return b"%d %b" % (mesh.size, mesh.data[:HEAD])
        case _:
            return repr(part).encode(errors="surrogatepass")


class CollectionRuntime:
    """One collection on one event loop."""

    def __init__(self, runtime: "Runtime", service: CollectionService) -> None:
        self.parent, self.service = runtime, service
        self.run = runtime.quick.run  # does work in a thread
        encoder = runtime.query_encoder(service.observer)
        self.query_encoder = CollectionQueryEncoder(encoder, service.collection, runtime.quick)
        self._deduplicator = Deduplicator(service.collection)
        self._spared = service.settings.spared
        self._searches: Batcher[SearchRequest, list[Hit]] = Batcher(
            lambda requests: service.collection.search_many(requests),
            most=service.settings.batch,
            room=service.settings.queue,
            threads=CLUSTER_SEARCHERS if service.settings.milvus else 1,
            watch=runtime.telemetry.watch("search"),
        )

    @property
    def address(self) -> str:
        plain = self.service.name == MAIN == self.parent.collections.default
        return "/v1" if plain else f"/v1/collections/{self.service.name}"

    @property
    def follower(self) -> FolderFollower | None:
        """What follows a folder into this collection."""
        follows = self.service.name == self.parent.collections.default
        return self.parent.follower if follows else None

    async def search(
        self, parts: WeightedParts, options: SearchOptions, where: Filter | None = None
    ) -> SearchHits:
        """Encode the parts of a query and search with them; `where` narrows the filter of the options."""
        start, name, span = time.perf_counter(), self.service.name, self.parent.telemetry.tracing.span
        where = narrow_filter(options, where)
        service, side, whole = self.service, side_of(parts), options.target == "item"
        evidence = service.evidence_model()
        model = UNCALIBRATED if whole else service.confidence.now()
        weighs = whole or (options.target in ("shape", "any") and service.observer.reads_points)
        check_confidence(model.curves, parts, options, weighs=weighs)
        page = SearchPage.of(parts, options)
        first, many = page.window
        if options.examples:
            await self.run(partial(check_examples, options.examples, service.item))
        self._searches.refuse_if_full()
        with span("encode", collection=name, clues=len(parts)):
            encode = self.query_encoder.encode
            if len(parts) == 1:  # without a task of its own
                encoded = [await encode(parts[0][0])]
            else:
                encoded = await asyncio.gather(*(encode(part) for part, _ in parts))
        encode_end = time.perf_counter()
        vectors = [one.vector for one in encoded]
        wide = options
        if page.last is not None:
            wide = replace(options, after=None, offset=first, limit=many)
        request = search_request(parts, vectors, wide, where, model.curves, evidence, service.settings)
        if is_single(parts):
            request = replace(request, legs=encoded[0].forms)
        version = self.service.collection.version
        with span("search", collection=name):
            found = await self._hits(request, fold=options.duplicates == "fold")
        hits, following = page.cut(found, first)
        search_end = time.perf_counter()
        if side is None:  # a mix, an item or a vector, which no calibration covers
            hits = [replace(hit, confidence=None) for hit in hits]
        if not page.place:
            self.parent.telemetry.answer(name, hits)
        kept = [hit for hit in hits if passes_thresholds(hit, options)]
        if kept[-1:] != hits[-1:] and not options.diversity:  # what follows is no better
            following = None
        hits = kept
        if model.unrelated:
            hits = [replace(hit, chance=model.chance(side, options.pool, hit)) for hit in hits]
        if options.explain:
            weighted = [(vector, weight) for vector, (_, weight) in zip(vectors, parts, strict=True)]
            hits = await self.run(lambda: insight.with_side_scores(self.service, weighted, hits))
        warnings = tuple(dict.fromkeys(warning for one in encoded for warning in one.warnings))
        times = encode_end - start, search_end - encode_end
        basis, fitted = model.basis, evidence.sides if whole else evidence.shapes
        if whole or any(hit.evidence for hit in hits):
            basis = "collection" if side in fitted else "prior"
        well = matches_well(hits) if whole else None
        return SearchHits(hits, version, *times, warnings, basis if side else None, well, following)

    async def _hits(self, request: SearchRequest, *, fold: bool) -> list[Hit]:
        """The hits of the index; to fold duplicates, so many more that a page is left."""
        if not fold:
            return await self._searches.ask(request, admitted=True)
        query = request.query
        reach = end = query.offset + query.limit
        while True:
            reach *= DUPLICATE_REACH_FACTOR
            wider = replace(request, query=replace(query, offset=0, limit=reach))
            hits = await self._searches.ask(wider, admitted=True)
            folded = await self.run(partial(self._deduplicator.fold, hits))
            if len(folded) >= end or len(hits) < reach or reach >= DUPLICATE_REACH_LIMIT:
                return [replace(hit, same=tuple(same)) for hit, same in folded[query.offset : end]]

    async def prepare(self, source: ItemSource, originals: OriginalFiles | None = None) -> EncodedItem:
        """Render and encode an item; it is not written yet. Originals of uploads are copied."""
        service, span, drawn = self.service, self.parent.telemetry.tracing.span, None
        if (mesh := source.mesh) is not None:
            with span("draw", collection=service.name):
                drawn = await self.parent.render_pool.run(
                    lambda lane: service.observer.draw(mesh, lane), mesh.size
                )
        if originals is None:
            originals = OriginalFiles(service.collection.blobs, copy=True, spared=self._spared)
            if isinstance(mesh, MeshData) and service.settings.keep_files:
                source = replace(source, files=(mesh,))
        with span("make", collection=service.name):
            return await self.run(lambda: service.make(source, originals, drawn))

    async def put(self, items: Sequence[Encoded]) -> list[Written]:
        """Write items together, and say what became of each; one that failed before stays an error."""
        ready = [one for one in items if isinstance(one, EncodedItem)]
        written = iter(await self.run(lambda: self.service.put(ready)) if ready else [])
        return [next(written) if isinstance(one, EncodedItem) else one for one in items]

    def audit(self, action: str, ids: Sequence[str], count: int) -> None:
        version = self.service.collection.version
        self.parent.audit.record(action, self.service.name, ids, count, version)

    def check_many(self, count: int, what: str) -> None:
        most = self.service.settings.max_batch
        if count > most:
            raise ApiError(422, "too_many", f"one request holds {most} {what} at most, not {count}")

    async def item(self, name: str) -> Item:
        return await self.run(lambda: self.service.item(name))

    async def stored_mesh(self, item: Item) -> MeshData | MeshPath:
        """The mesh that the views of an item are of."""
        blobs, home = self.service.collection.blobs, self.service.home
        mesh = await self.run(lambda: find_stored_mesh(blobs, home, item))
        if mesh is None:
            raise ApiError(422, "no_original", f"the mesh of the item {item.id!r} is not kept here")
        return mesh

    @property
    def waiting(self) -> int:
        return self._searches.waiting

    def close(self) -> None:
        self._searches.close()


class Runtime:
    """All collections on one event loop, and what they share: pools, query encoders, telemetry and jobs."""

    def __init__(self, collections: Collections, handlers: JobHandlerFactory) -> None:
        self.collections = collections
        settings = collections.settings
        self.telemetry, self.audit = Telemetry(collections), AuditLog(settings.data / "audit.jsonl")
        watch = self.telemetry.watch
        self.quick = ThreadPool("quick", settings.workers, settings.queue, watch("items"))
        self.render_pool = RenderPool(settings.renderers, settings.queue, watch("draw"))
        self.fetcher = FileFetcher(settings.fetch_hosts, settings.max_body)
        self._query_encoders: dict[ObservationEncoder, QueryEncoder] = {}
        self._runtimes: dict[str, CollectionRuntime] = {}  # by the place of their collection
        self.jobs = JobRunner(collections.jobs, handlers(self), exclusive=not collections.shared)
        self.drift = DriftMonitor(collections, settings.probe_interval)
        self.follower = None if settings.folder is None else FolderFollower(collections, settings.folder)
        self.telemetry.show_drift(self.drift)
        self.telemetry.show_queues(self._waiting, settings.queue)
        self.telemetry.show_cache(self._cache_counts)

    @classmethod
    @asynccontextmanager
    async def of(cls, collections: Collections, handlers: JobHandlerFactory) -> AsyncIterator["Runtime"]:
        """A runtime that is closed in the end; what was accepted is finished first."""
        runtime = cls(collections, handlers)
        if runtime.follower is not None:
            runtime.follower.start()
        try:
            yield runtime
        finally:
            if runtime.follower is not None:
                await run_in_threadpool(runtime.follower.close)
            await runtime.drift.close()
            await runtime.jobs.close()
            await run_in_threadpool(runtime.close)

    async def collection(self, name: str = DEFAULT) -> CollectionRuntime:
        collections = self.collections
        shared = collections.shared  # then the names have to be read
        place = await run_in_threadpool(collections.place, name) if shared else collections.place(name)
        if place not in self._runtimes:
            service = await run_in_threadpool(collections.service, name)
            if place not in self._runtimes:  # another request may have been first
                self._runtimes[place] = CollectionRuntime(self, service)
        return self._runtimes[place]

    async def drop(self, name: str) -> None:
        entry = await run_in_threadpool(self.collections.forget, name)
        if (dropped := self._runtimes.pop(entry.place, None)) is not None:
            await run_in_threadpool(dropped.close)
        await run_in_threadpool(self.collections.discard, entry)

    def query_encoder(self, observer: ObservationEncoder) -> QueryEncoder:
        if observer not in self._query_encoders:
            observer.on_rescore = self.telemetry.clock("rescore")
            encoder = QueryEncoder(observer, self.collections.settings, self.telemetry, self.render_pool)
            self._query_encoders[observer] = encoder
        return self._query_encoders[observer]

    def _waiting(self) -> dict[str, int]:
        waiting = Counter({"items": self.quick.waiting, "draw": self.render_pool.waiting, "search": 0})
        for encoder in list(self._query_encoders.values()):
            waiting.update(encoder.waiting)
        for collection in list(self._runtimes.values()):
            waiting["search"] += collection.waiting
        return dict(waiting)

    def _cache_counts(self) -> tuple[int, int, int]:
        counts = [(0, 0, 0), *(encoder.cache_counts for encoder in list(self._query_encoders.values()))]
        hits, misses, size = map(sum, zip(*counts, strict=True))
        return hits, misses, size

    def close(self) -> None:
        for encoder in self._query_encoders.values():
            encoder.close()
        for collection in self._runtimes.values():
            collection.close()
        self.quick.close()
        self.render_pool.close()
        self.telemetry.tracing.close()
