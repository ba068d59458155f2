"""/v1/jobs: list, show and cancel jobs."""

from datetime import UTC, datetime

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from app.http.dependencies import CollectionsDep
from app.http.openapi import error_responses
from index.jobs import JobRecord
from multifold.wire.administration import JobAnswer, JobsAnswer, JobStatus

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("")
async def list_jobs(collections: CollectionsDep) -> JobsAnswer:
    """All jobs that are known, the youngest first."""
    return JobsAnswer(tuple(map(serialize_job, await run_in_threadpool(collections.jobs.all))))


@router.get("/{job_id}", responses=error_responses(404, 422))
async def get_job(collections: CollectionsDep, job_id: str) -> JobAnswer:
    """One job."""
    return JobAnswer(serialize_job(await run_in_threadpool(collections.jobs.get, job_id)))


@router.post("/{job_id}/cancel", responses=error_responses(404, 422))
async def cancel_job(collections: CollectionsDep, job_id: str) -> JobAnswer:
    """Ask a job to end; what it has done stays. It has ended when its state says so."""
    cancelled = await run_in_threadpool(collections.jobs.cancel, job_id)
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
