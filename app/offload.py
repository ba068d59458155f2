"""Work leaves the event loop: encoding and searching in batches, the rest in bounded pools.

Drawing a mesh has a pool of its own, as it takes seconds and must not keep others waiting.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from app.batching import Batcher
from app.pools import Pool
from app.questions import Question
from app.senses import Senses
from app.service import Answer, Found, Service
from multifold.errors import needs_extra
from multifold.types import Query

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
        self._quick = Pool("quick", settings.workers, room)
        self._slow = Pool("slow", settings.renderers, room)
        self.senses = Senses(service.observer, settings, self._slow)
        self._searches = Batcher(service.search, most=settings.batch, room=room)

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
        """Sense the clue and search with it."""
        start = time.perf_counter()
        self._searches.refuse_if_full()
        sensed = await question.clue.sense(self.senses)
        encoded = time.perf_counter()
        found: Found = await self._searches.ask(
            Query(sensed.vector, question.target, question.limit, question.pool), admitted=True
        )
        searched = time.perf_counter()
        return Answer(found.hits, encoded - start, searched - encoded, found.version, sensed.warnings)

    async def run(self, work: Callable[[], T], *, slow: bool = False) -> T:
        """Do it in a thread."""
        return await (self._slow if slow else self._quick).run(work)

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
