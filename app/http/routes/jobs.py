"""/v1/jobs: list, show, follow and cancel jobs."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends
from starlette.concurrency import run_in_threadpool

from app.http.dependencies import CollectionsDep
from app.http.openapi import error_responses, event_route
from app.http.routers import service_router
from index.jobs import JobRecord
from multifold.wire.administration import JobAnswer, JobsAnswer, JobStatus

router = service_router(prefix="/v1/jobs", tags=["jobs"])


async def named_job(collections: CollectionsDep, job_id: str) -> JobRecord:
    """The job that a request names in its path."""
    return await run_in_threadpool(collections.jobs.get, job_id)


JobDep = Annotated[JobRecord, Depends(named_job)]


async def open_stream(collections: CollectionsDep, _: JobDep) -> AsyncIterator[None]:
    """A place among the streams of events, for as long as the answer lasts."""
    with collections.streams.take():
        yield


@router.get("", responses=error_responses(429))
async def list_jobs(collections: CollectionsDep) -> JobsAnswer:
    """All jobs that are known, the youngest first."""
    collections.workers.listing.refuse_if_full()
    async with collections.workers.listing.turn():
        return JobsAnswer(tuple(map(serialize_job, await run_in_threadpool(collections.jobs.all))))


@router.get("/{job_id}", responses=error_responses(404, 422))
async def get_job(job: JobDep) -> JobAnswer:
    """One job."""
    return JobAnswer(serialize_job(job))


@router.get(
    "/{job_id}/events",
    dependencies=[Depends(open_stream)],
    **event_route("events, each with the job as JSON"),
)
async def follow_job(collections: CollectionsDep, job: JobDep) -> AsyncIterator[JobStatus]:
    """One job as server-sent events: as it stands, then each time that it has changed, until it has ended.

    Ask again if the answer ends before: the service stops, or nothing has changed for ten minutes.
    """
    async for now in collections.job_runner.follow(job, collections.is_stopping):
        yield serialize_job(now)


@router.post("/{job_id}/cancel", responses=error_responses(404, 422))
async def cancel_job(collections: CollectionsDep, job_id: str) -> JobAnswer:
    """Ask a job to end; what it has done stays. It has ended when its state says so."""
    cancelled = await collections.job_runner.cancel(job_id)
    collections.workers.audit.record("cancel job", cancelled.collection, [job_id], 1, 0)
    return JobAnswer(serialize_job(cancelled))


def serialize_job(job: JobRecord) -> JobStatus:
    progress = job.progress
    return JobStatus(
        id=job.id,
        kind=job.kind,
        collection=job.collection,
        state=job.state,
        done=progress.done,
        total=progress.total,
        errors=tuple(progress.errors),
        result=progress.result,
        created=datetime.fromtimestamp(job.created, UTC),
        ended=None if job.ended is None else datetime.fromtimestamp(job.ended, UTC),
    )
