"""Work leaves the event loop: encoding and searching in batches, the rest in bounded pools.

Drawing a mesh has a pool of its own, as it takes seconds and must not keep others waiting. Every collection
has a desk; they share the pools, the perception of their encoder and the numbers.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeAlias, TypeVar

from app import insight
from app.alike import Alike
from app.audit import Audit
from app.batching import Batcher
from app.drafting import Parts
from app.drift import Drift, matched
from app.errors import ApiError
from app.fetching import Fetcher
from app.ingest import Draft, Made
from app.jobs import Jobs, Worker
from app.observer import Observer
from app.pools import Pool
from app.questions import Clue, Question, check_confidence, passes
from app.senses import Perception, Sensed, Senses
from app.service import Answer, Found, Look, Service
from app.shelf import Shelf
from app.telemetry import Telemetry
from index.names import DEFAULT, MAIN
from multifold.errors import needs_extra
from multifold.types import Query, Side

with needs_extra("serve"):
    from fastapi import Request
    from starlette.concurrency import run_in_threadpool

T = TypeVar("T")
Workers: TypeAlias = Callable[["Office"], Mapping[str, Worker]]  # what each kind of job does
WIDER, FURTHEST = 2, 2_000  # hits that are looked at to fold duplicates


class Desk:
    """One collection as one event loop asks it."""

    def __init__(self, office: "Office", service: Service) -> None:
        self.office, self.service = office, service
        self.senses = Senses(office.perception(service.observer), service.collection, office.quick)
        self._alike = Alike(service.collection)
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

    async def ask(self, question: Question) -> Answer:
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
            self.office.telemetry.answered(self.service.name, matched(found.hits))
        hits = [hit for hit in found.hits if passes(hit, options)]
        warnings = tuple(dict.fromkeys(chain.from_iterable(one.warnings for one in sensed)))
        chance = tuple(sureness.unlikely(question.side, options.pool, hit) for hit in hits)
        by = sureness.by if question.side else None
        took = encoded - start, searched - encoded
        sides: tuple[dict[Side, float], ...] = ()
        if options.explain:
            parts = [(one.vector, weight) for one, (_, weight) in zip(sensed, question.clues, strict=True)]
            sides = await self.run(
                lambda: tuple(insight.mixed_sides(self.service, parts, hit) for hit in hits)
            )
        return Answer(hits, *took, found.version, warnings, self.address, by, chance, sides)

    async def _found(self, question: Question, query: Query) -> Found:
        """What the index finds; if duplicates are folded, look further until enough is left."""
        options = question.options
        look = Look(query, options.where, options.exact, question.side)
        if options.duplicates == "show":
            return await self._searches.ask(look, admitted=True)
        reach = end = query.offset + query.limit
        while True:
            reach *= WIDER
            wider = replace(look, query=replace(query, offset=0, limit=reach))
            found = await self._searches.ask(wider, admitted=True)
            folded = await self.run(partial(self._alike.fold, found.hits))
            if len(folded) >= end or len(found.hits) < reach or reach >= FURTHEST:
                hits = [replace(hit, same=tuple(same)) for hit, same in folded[query.offset : end]]
                return Found(found.version, hits)

    async def put(self, parts: Parts) -> Made:
        """Draw and encode what an item is made of."""
        mesh, span = parts.mesh, self.office.telemetry.tracing.span
        views = None
        if mesh is not None:
            with span("draw", collection=self.service.name):
                views = await self.office.draw.run(lambda: self.service.observer.draw(mesh))
        settings = self.service.settings
        kept = ((mesh.data, mesh.suffix),) if mesh is not None and settings.keep_files else ()
        draft = Draft(parts.id, parts.texts, parts.photos, views, parts.payload, kept, spared=settings.spared)
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

    async def _sensed(self, clues: Sequence[Clue]) -> list[Sensed]:
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


class Office:
    """All desks of one event loop, and what they share."""

    def __init__(self, shelf: Shelf, workers: Workers) -> None:
        self.shelf = shelf
        settings = shelf.settings
        self.telemetry, self.audit = Telemetry(shelf), Audit(settings.data / "audit.jsonl")
        watch = self.telemetry.watch
        self.quick = Pool("quick", settings.workers, settings.queue, watch("items"))
        self.draw = Pool("slow", settings.renderers, settings.queue, watch("draw"))
        self.fetcher = Fetcher(settings.fetch, settings.max_body)
        self._perceptions: dict[Observer, Perception] = {}
        self._desks: dict[str, Desk] = {}
        self.jobs = Jobs(shelf.jobs, workers(self), alone=not shelf.shared)
        self.drift = Drift(shelf, settings.probe_every)
        self.telemetry.drift(self.drift)
        self.telemetry.queues(self._waiting, settings.queue)
        self.telemetry.cache(self._cached)

    @classmethod
    @asynccontextmanager
    async def of(cls, shelf: Shelf, workers: Workers) -> AsyncIterator["Office"]:
        """An office that is closed in the end; what was accepted is finished first."""
        office = cls(shelf, workers)
        try:
            yield office
        finally:
            await office.drift.close()
            await office.jobs.close()
            await run_in_threadpool(office.close)

    async def desk(self, name: str = DEFAULT) -> Desk:
        """The desk of a collection, by its name or an alias."""
        shelf = self.shelf
        place = await run_in_threadpool(shelf.place, name) if shelf.shared else shelf.place(name)
        if place not in self._desks:
            service = await run_in_threadpool(shelf.service, name)
            if place not in self._desks:  # another request may have been first
                self._desks[place] = Desk(self, service)
        return self._desks[place]

    async def drop(self, name: str) -> None:
        """Drop a collection; what was accepted is finished first."""
        entry = await run_in_threadpool(self.shelf.forget, name)
        desk = self._desks.pop(entry.place, None)
        if desk is not None:
            await run_in_threadpool(desk.close)
        await run_in_threadpool(self.shelf.discard, entry)

    def perception(self, observer: Observer) -> Perception:
        """What reads and looks for all collections of an encoder."""
        if observer not in self._perceptions:
            observer.rescored = self.telemetry.clock("rescore")
            self._perceptions[observer] = Perception(observer, self.shelf.settings, self.telemetry, self.draw)
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


async def desk(request: Request) -> Desk:
    """The desk of the collection that this request is for."""
    office: Office = request.app.state.office
    name: str = getattr(request.state, "collection", DEFAULT)
    return await office.desk(name)


def office(request: Request) -> Office:
    """All collections of the service that this request came to."""
    found: Office = request.app.state.office
    return found
