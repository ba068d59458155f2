"""Runs the jobs of the store, one at a time, on the event loop."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias
from uuid import uuid4

from starlette.concurrency import run_in_threadpool

from app.concurrency.clients import key_name
from index.jobs import JobList, JobProgress, JobRecord, TakenJob
from index.store.database import StoreError
from multifold.errors import MultifoldError
from multifold.types import JobState

log = logging.getLogger("multifold.app")
POLL_SECONDS, REPORT_SECONDS = 2.0, 1.0  # seconds between two polls for work, and between two reports
FOLLOW_SECONDS = 1.0  # between two looks at a job that is followed, which another process may run
IDLE_STREAM_SECONDS = 600.0  # after which a follower of a job that does not change is let go
KEY_FIELD = "key_name"  # of a job's spec: whose job it is
JobHandler: TypeAlias = Callable[[TakenJob, JobProgress], Awaitable[None]]


class JobLook:
    """The next look at a job: as soon as it has changed here, or in a while."""

    def __init__(self, jobs: JobList, id: str) -> None:  # noqa: A002 (what a job's name is called here)
        self.changed = asyncio.Event()
        self.found = asyncio.create_task(self._find(jobs, id))

    async def _find(self, jobs: JobList, id: str) -> JobRecord:  # noqa: A002
        with suppress(TimeoutError):
            await asyncio.wait_for(self.changed.wait(), FOLLOW_SECONDS)
        return await run_in_threadpool(jobs.get, id)


class JobRunner:
    """Adds and runs jobs on one event loop; `exclusive`: no other process runs jobs of this list."""

    def __init__(self, jobs: JobList, *, exclusive: bool) -> None:
        self._jobs = jobs
        self._exclusive = exclusive
        self._name = uuid4().hex
        self._added = asyncio.Event()
        self._looks: dict[str, JobLook] = {}  # one for all followers of a job, by its id

    def start(self, handlers: Mapping[str, JobHandler]) -> None:
        """Work on the running event loop; there is one handler for each kind of job."""
        self._handlers = handlers
        self._loop = asyncio.create_task(self._work())

    async def add(self, kind: str, collection: str, spec: Mapping[str, Any], total: int = 0) -> JobRecord:
        spec = {**spec, KEY_FIELD: key_name.get()}
        job = await run_in_threadpool(self._jobs.add, kind, collection, spec, total)
        self._added.set()
        return job

    async def cancel(self, id: str) -> JobRecord:  # noqa: A002 (what a job's name is called here)
        job = await run_in_threadpool(self._jobs.cancel, id)
        self._wake(id)
        return job

    async def follow(self, job: JobRecord, is_stopping: Callable[[], bool]) -> AsyncIterator[JobRecord]:
        """A job as it stands, then each time that it has changed.

        It ends with the job, with the service, or when nothing has changed for a long time.
        """
        yield job
        changed = time.monotonic()
        while job.ended is None and not is_stopping() and time.monotonic() < changed + IDLE_STREAM_SECONDS:
            with suppress(StoreError):  # which the store has logged
                former, job = job, await asyncio.shield(self._look(job.id).found)
                if job != former:
                    changed = time.monotonic()
                    yield job

    async def close(self) -> None:
        """Stop; a running job goes on when the service is back."""
        self._loop.cancel()
        with suppress(asyncio.CancelledError):
            await self._loop

    async def _work(self) -> None:
        first = self._exclusive  # then what an earlier process left unfinished is taken too
        while True:
            self._added.clear()
            try:
                job = await run_in_threadpool(partial(self._jobs.take, self._name, alone=first))
                if job is not None:
                    await self._run(job)
                    continue
                first = False
            except StoreError:
                pass  # which the store has logged
            with suppress(TimeoutError):
                await asyncio.wait_for(self._added.wait(), POLL_SECONDS)

    async def _run(self, job: TakenJob) -> None:
        progress = job.progress
        self._wake(job.id)
        key_name.set(job.spec.get(KEY_FIELD))  # for the audit log and the metrics
        job = replace(job, spec={name: value for name, value in job.spec.items() if name != KEY_FIELD})
        running = asyncio.ensure_future(self._handlers[job.kind](job, progress))
        try:
            while not running.done():
                await asyncio.wait({running}, timeout=REPORT_SECONDS)
                if not await run_in_threadpool(self._jobs.tell, job.id, self._name, progress):
                    running.cancel()
                    await asyncio.wait({running})
                self._wake(job.id)
        except BaseException as error:
            running.cancel()
            await asyncio.wait({running})
            if isinstance(error, asyncio.CancelledError):  # the service ends, the job does not
                await self._end(job, "queued", progress)
            raise
        await self._end(job, _final_state(running, progress), progress)

    async def _end(self, job: TakenJob, state: JobState, progress: JobProgress) -> None:
        await run_in_threadpool(self._jobs.end, job.id, self._name, state, progress)
        self._wake(job.id)

    def _look(self, id: str) -> JobLook:  # noqa: A002
        """The look at a job that all of its followers wait for."""
        look = self._looks.get(id)
        if look is None:
            look = self._looks[id] = JobLook(self._jobs, id)
            look.found.add_done_callback(lambda _: self._looks.pop(id))
        return look

    def _wake(self, id: str) -> None:  # noqa: A002
        """Tell the followers of a job that it may have changed."""
        if (look := self._looks.get(id)) is not None:
            look.changed.set()


def _final_state(running: "asyncio.Future[None]", progress: JobProgress) -> JobState:
    """The state of a job that has ended; an error is added to its progress."""
    if running.cancelled():
        return "cancelled"
    error = running.exception()
    if error is None:
        return "done"
    if isinstance(error, MultifoldError):
        progress.error(str(error))
    else:
        log.error("a job failed", exc_info=error)
        progress.error("something broke on our side; the service's log has the details")
    return "failed"
