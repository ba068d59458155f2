"""/v1/jobs: list, show and cancel jobs."""

from datetime import UTC, datetime
from typing import Annotated

from app.http.openapi import error_responses
from app.http.schemas.jobs import JobAnswer, JobResource, JobsAnswer
from app.runtime.runtime import Runtime, service_runtime
from index.jobs import JobRecord
from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Depends

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
Here = Annotated[Runtime, Depends(service_runtime)]


@router.get("")
async def jobs(here: Here) -> JobsAnswer:
    """All jobs that are known, the youngest first."""
    return JobsAnswer(jobs=[serialize_job(one) for one in await here.jobs.all()])


@router.get("/{job_id}", responses=error_responses(404, 422))
async def job(here: Here, job_id: str) -> JobAnswer:
    """One job."""
    return JobAnswer(job=serialize_job(await here.jobs.get(job_id)))


@router.post("/{job_id}/cancel", responses=error_responses(404, 422))
async def cancel(here: Here, job_id: str) -> JobAnswer:
    """Ask a job to end; what it has done stays. It has ended when its state says so."""
    found = await here.jobs.cancel(job_id)
    here.audit.tell("cancel job", found.collection, [job_id], 1, 0)
    return JobAnswer(job=serialize_job(found))


def serialize_job(one: JobRecord) -> JobResource:
    """A job as the wire shows it."""
    told = one.progress
    return JobResource(
        id=one.id,
        kind=one.kind,
        collection=one.collection,
        state=one.state,
        done=told.done,
        total=told.total,
        errors=told.errors,
        result=told.result,
        created=datetime.fromtimestamp(one.created, UTC),
        ended=None if one.ended is None else datetime.fromtimestamp(one.ended, UTC),
    )
