"""/v1/jobs: list, show and cancel jobs."""

from typing import Annotated

from app.http.openapi import error_responses
from app.http.serialization import job_answer, serialize_job
from app.runtime.runtime import Runtime, service_runtime
from multifold.errors import needs_extra
from multifold.wire.administration import JobAnswer, JobsAnswer

with needs_extra("serve"):
    from fastapi import APIRouter, Depends

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
Here = Annotated[Runtime, Depends(service_runtime)]


@router.get("")
async def jobs(here: Here) -> JobsAnswer:
    """All jobs that are known, the youngest first."""
    return JobsAnswer(tuple(map(serialize_job, await here.jobs.all())))


@router.get("/{job_id}", responses=error_responses(404, 422))
async def job(here: Here, job_id: str) -> JobAnswer:
    """One job."""
    return job_answer(await here.jobs.get(job_id))


@router.post("/{job_id}/cancel", responses=error_responses(404, 422))
async def cancel(here: Here, job_id: str) -> JobAnswer:
    """Ask a job to end; what it has done stays. It has ended when its state says so."""
    cancelled = await here.jobs.cancel(job_id)
    here.audit.record("cancel job", cancelled.collection, [job_id], 1, 0)
    return job_answer(cancelled)
