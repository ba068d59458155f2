"""Work leaves the event loop: encoding and searching in batches, the rest in bounded pools.

Drawing a mesh has a pool of its own, as it takes seconds and must not keep others waiting.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import TypeVar

from app.audit import Audit
from app.batching import Batcher
from app.drafting import Parts
from app.errors import ApiError
from app.ingest import Draft, Made
from app.pools import Pool
from app.questions import Clue, Question
from app.senses import Sensed, Senses
from app.service import Answer, Look, Service
from app.telemetry import Telemetry
from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import Request
    from starlette.concurrency import run_in_threadpool

T = TypeVar("T")


class Desk:
    """The service as one event loop asks it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        settings = service.settings
        room = settings.queue
        self.telemetry, self._audit = Telemetry(service), Audit(settings.data / "audit.jsonl")
        watch = self.telemetry.watch
        self._quick = Pool("quick", settings.workers, room, watch("items"))
        self._slow = Pool("slow", settings.renderers, room, watch("draw"))
        self.senses = Senses(service, self.telemetry, self._quick, self._slow)
        self._searches = Batcher(service.search, most=settings.batch, room=room, watch=watch("search"))
        self.telemetry.queues(self._waiting, room)

    @classmethod
    @asynccontextmanager
    async def of(cls, service: Service) -> AsyncIterator["Desk"]:
        """A desk that is closed in the end; what was accepted is finished first."""
        desk = cls(service)
        try:
            yield desk
        finally:
            await run_in_threadpool(desk.close)

    async def ask(self, question: Question) -> Answer:
        """Sense the clues and search with them."""
        start = time.perf_counter()
        self._searches.refuse_if_full()
        sensed = await self._sensed([clue for clue, _ in question.clues])
        encoded = time.perf_counter()
        query, options = question.query([one.vector for one in sensed]), question.options
        found = await self._searches.ask(Look(query, options.where, options.exact), admitted=True)
        searched = time.perf_counter()
        hits = [hit for hit in found.hits if options.min_score is None or hit.score >= options.min_score]
        warnings = tuple(dict.fromkeys(chain.from_iterable(one.warnings for one in sensed)))
        return Answer(hits, encoded - start, searched - encoded, found.version, warnings)

    async def put(self, parts: Parts) -> Made:
        """Draw and encode what an item is made of."""
        mesh = parts.mesh
        views = None if mesh is None else await self._slow.run(lambda: self.service.observer.draw(mesh))
        draft = Draft(parts.id, parts.texts, parts.photos, views, parts.payload)
        return await self.run(lambda: self.service.make(draft))

    def audit(self, action: str, ids: Sequence[str], count: int) -> None:
        """Write down that something was changed."""
        self._audit.tell(action, ids, count, self.service.collection.version)

    def check_many(self, count: int, what: str) -> None:
        """Refuse what is too much for one request."""
        most = self.service.settings.max_batch
        if count > most:
            raise ApiError(422, "too_many", f"one request holds {most} {what} at most, not {count}")

    async def run(self, work: Callable[[], T]) -> T:
        """Do it in a thread."""
        return await self._quick.run(work)

    async def _sensed(self, clues: Sequence[Clue]) -> list[Sensed]:
        if len(clues) == 1:
            return [await clues[0].sense(self.senses)]
        return list(await asyncio.gather(*(clue.sense(self.senses) for clue in clues)))

    def _waiting(self) -> dict[str, int]:
        return {**self.senses.waiting, "items": self._quick.waiting, "search": self._searches.waiting}

    def close(self) -> None:
        """Finish what was accepted."""
        self.senses.close()
        self._searches.close()
        self._quick.close()
        self._slow.close()


def desk(request: Request) -> Desk:
    """The desk of the service that this request came to."""
    found: Desk = request.app.state.desk
    return found
