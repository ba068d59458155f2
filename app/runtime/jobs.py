"""Runs the jobs of the store, one at a time, on the event loop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias
from uuid import uuid4

from index.jobs import JobList, JobProgress, JobRecord
from multifold.errors import MultifoldError, needs_extra
from multifold.types import JobState

with needs_extra("serve"):
    from starlette.concurrency import run_in_threadpool

log = logging.getLogger("multifold.app")
POLL_SECONDS, REPORT_SECONDS = 2.0, 1.0  # seconds between two looks for work, and between two words on it
JobHandler: TypeAlias = Callable[[JobRecord, JobProgress], Awaitable[None]]


class JobRunner:
    """The jobs as one event loop asks for them and does them. A worker may be cancelled at any `await`."""

    def __init__(self, known: JobList, workers: Mapping[str, JobHandler], *, alone: bool) -> None:
        self._known, self._workers, self._alone = known, workers, alone
        self._name = uuid4().hex
        self._asked = asyncio.Event()
        self._loop = asyncio.create_task(self._work())

    async def add(self, kind: str, collection: str, spec: Mapping[str, Any], total: int = 0) -> JobRecord:
        """Ask for something."""
        job = await run_in_threadpool(self._known.add, kind, collection, spec, total)
        self._asked.set()
        return job

    async def get(self, name: str) -> JobRecord:
        """One job."""
        return await run_in_threadpool(self._known.get, name)

    async def all(self) -> list[JobRecord]:
        """Every job that is known, the youngest first."""
        return await run_in_threadpool(self._known.all)

    async def cancel(self, name: str) -> JobRecord:
        """Ask for a job to end."""
        return await run_in_threadpool(self._known.cancel, name)

    async def close(self) -> None:
        """Stop working; what is under way goes on when the service is back."""
        self._loop.cancel()
        with suppress(asyncio.CancelledError):
            await self._loop

    async def _work(self) -> None:
        alone = self._alone
        while True:
            self._asked.clear()
            try:
                job = await run_in_threadpool(partial(self._known.take, self._name, alone=alone))
                if job is not None:
                    await self._do(job)
                    continue
                alone = False
            except MultifoldError:
                log.exception("the list of jobs cannot be read")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), POLL_SECONDS)

    async def _do(self, job: JobRecord) -> None:
        progress = job.progress
        doing = asyncio.ensure_future(self._workers[job.kind](job, progress))
        try:
            while not doing.done():
                await asyncio.wait({doing}, timeout=REPORT_SECONDS)
                if not await run_in_threadpool(self._known.tell, job.id, self._name, progress):
                    doing.cancel()
                    await asyncio.wait({doing})
        except BaseException as error:
            doing.cancel()
            await asyncio.wait({doing})
            if isinstance(error, asyncio.CancelledError):  # the service ends, the job does not
                await self._end(job, "queued", progress)
            raise
        await self._end(job, _outcome(doing, progress), progress)

    async def _end(self, job: JobRecord, state: JobState, progress: JobProgress) -> None:
        await run_in_threadpool(self._known.end, job.id, self._name, state, progress)


def _outcome(doing: "asyncio.Future[None]", progress: JobProgress) -> JobState:
    """What became of it; whatever it was, it is told."""
    if doing.cancelled():
        return "cancelled"
    error = doing.exception()
    if error is None:
        return "done"
    if isinstance(error, MultifoldError):
        progress.error(str(error))
    else:
        log.error("a job failed", exc_info=error)
        progress.error("something broke on our side; the service's log has the details")
    return "failed"
