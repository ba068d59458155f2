"""/v1/jobs: list, show and cancel jobs."""

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from app.http.conversion import ServiceDep, job_answer, serialize_job
from app.http.openapi import error_responses
from multifold.wire.administration import JobAnswer, JobsAnswer

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("")
async def list_jobs(runtime: ServiceDep) -> JobsAnswer:
    """All jobs that are known, the youngest first."""
    return JobsAnswer(tuple(map(serialize_job, await run_in_threadpool(runtime.collections.jobs.all))))


@router.get("/{job_id}", responses=error_responses(404, 422))
async def get_job(runtime: ServiceDep, job_id: str) -> JobAnswer:
    """One job."""
    return job_answer(await run_in_threadpool(runtime.collections.jobs.get, job_id))


@router.post("/{job_id}/cancel", responses=error_responses(404, 422))
async def cancel_job(runtime: ServiceDep, job_id: str) -> JobAnswer:
    """Ask a job to end; what it has done stays. It has ended when its state says so."""
    cancelled = await run_in_threadpool(runtime.collections.jobs.cancel, job_id)
    runtime.audit.record("cancel job", cancelled.collection, [job_id], 1, 0)
    return job_answer(cancelled)
