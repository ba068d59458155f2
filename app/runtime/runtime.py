"""The runtime of a service on one event loop, and of each of its collections.

Encoding and searching are batched, the rest runs in bounded pools. Rendering has a pool of its own, as it
takes seconds and must not keep others waiting. Collections share the pools, the query encoder and the
telemetry.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Annotated, TypeAlias, TypeVar

from app.collections.collections import Collections
from app.collections.service import CollectionQuery, CollectionService, SearchOutcome, VersionedHits
from app.concurrency.batching import Batcher
from app.concurrency.pools import ThreadPool
from app.encoding.observations import ObservationEncoder
from app.errors import ApiError
from app.http.parsing import ItemUpload
from app.ingest.preparation import ItemDraft, PreparedItem
from app.ingest.uploads import FileFetcher
from app.operations.audit import AuditLog
from app.operations.drift import DriftMonitor, rate_match
from app.operations.telemetry import Telemetry
from app.runtime.jobs import JobHandler, JobRunner
from app.search import insight
from app.search.duplicates import Deduplicator
from app.search.query import (
    CollectionQueryEncoder,
    EncodedPart,
    QueryEncoder,
    QueryPart,
    SearchQuery,
    check_confidence,
    passes_thresholds,
)
from index.registry import DEFAULT, MAIN
from multifold.errors import needs_extra
from multifold.types import Query, Side

with needs_extra("serve"):
    from fastapi import Path, Request
    from starlette.concurrency import run_in_threadpool

T = TypeVar("T")
JobHandlerFactory: TypeAlias = Callable[["Runtime"], Mapping[str, JobHandler]]  # what each kind of job does
DUPLICATE_REACH_FACTOR, DUPLICATE_REACH_LIMIT = 2, 2_000  # hits that are looked at to fold duplicates


class CollectionRuntime:
    """One collection as one event loop asks it."""

    def __init__(self, office: "Runtime", service: CollectionService) -> None:
        self.office, self.service = office, service
        self.senses = CollectionQueryEncoder(
            office.perception(service.observer), service.collection, office.quick
        )
        self._alike = Deduplicator(service.collection)
        self._searches = Batcher(
            service.search,
            most=service.settings.batch,
            room=service.settings.queue,
            watch=office.telemetry.watch("search"),
        )

    @property
    def address(self) -> str:
        """Where its routes are."""
        plain = self.service.name == MAIN == self.office.shelf.default
        return "/v1" if plain else f"/v1/collections/{self.service.name}"

    async def ask(self, question: SearchQuery) -> SearchOutcome:
        """Sense the clues and search with them."""
        start = time.perf_counter()
        sureness = self.service.sure.now()
        check_confidence(sureness.curves, question)
        self._searches.refuse_if_full()
        span = self.office.telemetry.tracing.span
        with span("encode", collection=self.service.name, clues=len(question.clues)):
            sensed = await self._sensed([clue for clue, _ in question.clues])
        encoded = time.perf_counter()
        query = question.query([one.vector for one in sensed], self.service.settings)
        options = question.options
        with span("search", collection=self.service.name):
            found = await self._found(question, query)
        searched = time.perf_counter()
        if not options.offset:
            self.office.telemetry.answered(self.service.name, rate_match(found.hits))
        hits = [hit for hit in found.hits if passes_thresholds(hit, options)]
        warnings = tuple(dict.fromkeys(chain.from_iterable(one.warnings for one in sensed)))
        chance = tuple(sureness.unlikely(question.side, options.pool, hit) for hit in hits)
        by = sureness.by if question.side else None
        took = encoded - start, searched - encoded
        sides: tuple[dict[Side, float], ...] = ()
        if options.explain:
            parts = [(one.vector, weight) for one, (_, weight) in zip(sensed, question.clues, strict=True)]
            sides = await self.run(
                lambda: tuple(insight.score_mixed_sides(self.service, parts, hit) for hit in hits)
            )
        return SearchOutcome(hits, *took, found.version, warnings, self.address, by, chance, sides)

    async def _found(self, question: SearchQuery, query: Query) -> VersionedHits:
        """What the index finds; if duplicates are folded, look further until enough is left."""
        options = question.options
        look = CollectionQuery(query, options.where, options.exact, question.side)
        if options.duplicates == "show":
            return await self._searches.ask(look, admitted=True)
        reach = end = query.offset + query.limit
        while True:
            reach *= DUPLICATE_REACH_FACTOR
            wider = replace(look, query=replace(query, offset=0, limit=reach))
            found = await self._searches.ask(wider, admitted=True)
            folded = await self.run(partial(self._alike.fold, found.hits))
            if len(folded) >= end or len(found.hits) < reach or reach >= DUPLICATE_REACH_LIMIT:
                hits = [replace(hit, same=tuple(same)) for hit, same in folded[query.offset : end]]
                return VersionedHits(found.version, hits)

    async def put(self, parts: ItemUpload) -> PreparedItem:
        """Draw and encode what an item is made of."""
        mesh, span = parts.mesh, self.office.telemetry.tracing.span
        views = None
        if mesh is not None:
            with span("draw", collection=self.service.name):
                views = await self.office.draw.run(lambda: self.service.observer.draw(mesh))
        settings = self.service.settings
        kept = ((mesh.data, mesh.suffix),) if mesh is not None and settings.keep_files else ()
        draft = ItemDraft(
            parts.id, parts.texts, parts.photos, views, parts.payload, kept, spared=settings.spared
        )
        with span("make", collection=self.service.name):
            return await self.run(lambda: self.service.make(draft))

    def audit(self, action: str, ids: Sequence[str], count: int) -> None:
        """Write down that something was changed."""
        self.office.audit.tell(action, self.service.name, ids, count, self.service.collection.version)

    def check_many(self, count: int, what: str) -> None:
        """Refuse what is too much for one request."""
        most = self.service.settings.max_batch
        if count > most:
            raise ApiError(422, "too_many", f"one request holds {most} {what} at most, not {count}")

    async def run(self, work: Callable[[], T]) -> T:
        """Do it in a thread."""
        return await self.office.quick.run(work)

    async def _sensed(self, clues: Sequence[QueryPart]) -> list[EncodedPart]:
        if len(clues) == 1:
            return [await clues[0].sense(self.senses)]
        return list(await asyncio.gather(*(clue.sense(self.senses) for clue in clues)))

    @property
    def waiting(self) -> int:
        """How many wait to be searched for."""
        return self._searches.waiting

    def close(self) -> None:
        """Finish what was accepted."""
        self._searches.close()


class Runtime:
    """All desks of one event loop, and what they share."""

    def __init__(self, shelf: Collections, workers: JobHandlerFactory) -> None:
        self.shelf = shelf
        settings = shelf.settings
        self.telemetry, self.audit = Telemetry(shelf), AuditLog(settings.data / "audit.jsonl")
        watch = self.telemetry.watch
        self.quick = ThreadPool("quick", settings.workers, settings.queue, watch("items"))
        self.draw = ThreadPool("slow", settings.renderers, settings.queue, watch("draw"))
        self.fetcher = FileFetcher(settings.fetch, settings.max_body)
        self._perceptions: dict[ObservationEncoder, QueryEncoder] = {}
        self._desks: dict[str, CollectionRuntime] = {}
        self.jobs = JobRunner(shelf.jobs, workers(self), alone=not shelf.shared)
        self.drift = DriftMonitor(shelf, settings.probe_every)
        self.telemetry.drift(self.drift)
        self.telemetry.queues(self._waiting, settings.queue)
        self.telemetry.cache(self._cached)

    @classmethod
    @asynccontextmanager
    async def of(cls, shelf: Collections, workers: JobHandlerFactory) -> AsyncIterator["Runtime"]:
        """An office that is closed in the end; what was accepted is finished first."""
        office = cls(shelf, workers)
        try:
            yield office
        finally:
            await office.drift.close()
            await office.jobs.close()
            await run_in_threadpool(office.close)

    async def desk(self, name: str = DEFAULT) -> CollectionRuntime:
        """The desk of a collection, by its name or an alias."""
        shelf = self.shelf
        place = await run_in_threadpool(shelf.place, name) if shelf.shared else shelf.place(name)
        if place not in self._desks:
            service = await run_in_threadpool(shelf.service, name)
            if place not in self._desks:  # another request may have been first
                self._desks[place] = CollectionRuntime(self, service)
        return self._desks[place]

    async def drop(self, name: str) -> None:
        """Drop a collection; what was accepted is finished first."""
        entry = await run_in_threadpool(self.shelf.forget, name)
        desk = self._desks.pop(entry.place, None)
        if desk is not None:
            await run_in_threadpool(desk.close)
        await run_in_threadpool(self.shelf.discard, entry)

    def perception(self, observer: ObservationEncoder) -> QueryEncoder:
        """What reads and looks for all collections of an encoder."""
        if observer not in self._perceptions:
            observer.rescored = self.telemetry.clock("rescore")
            self._perceptions[observer] = QueryEncoder(
                observer, self.shelf.settings, self.telemetry, self.draw
            )
        return self._perceptions[observer]

    def _waiting(self) -> dict[str, int]:
        waiting = Counter({"items": self.quick.waiting, "draw": self.draw.waiting, "search": 0})
        for perception in list(self._perceptions.values()):
            waiting.update(perception.waiting)
        for desk in list(self._desks.values()):
            waiting["search"] += desk.waiting
        return dict(waiting)

    def _cached(self) -> tuple[int, int, int]:
        found = [one.cached for one in list(self._perceptions.values())]
        return sum(one[0] for one in found), sum(one[1] for one in found), sum(one[2] for one in found)

    def close(self) -> None:
        """Finish what was accepted."""
        for perception in self._perceptions.values():
            perception.close()
        for desk in self._desks.values():
            desk.close()
        self.quick.close()
        self.draw.close()
        self.telemetry.tracing.close()


async def collection_runtime(request: Request) -> CollectionRuntime:
    """The runtime of the collection that a request names in its path, else of the default one."""
    office: Runtime = request.app.state.office
    return await office.desk(request.path_params.get("collection", DEFAULT))


def collection_name(collection: Annotated[str, Path(description="its name or an alias")]) -> str:
    """The path parameter of every route of a named collection."""
    return collection


def service_runtime(request: Request) -> Runtime:
    """All collections of the service that this request came to."""
    found: Runtime = request.app.state.office
    return found
