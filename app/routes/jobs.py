"""/v1/jobs: how long work stands, and an end to it."""

from datetime import UTC, datetime
from typing import Annotated

from app.offload import Office, office
from app.routes.refusals import refusals
from app.schemas.jobs import JobAnswer, JobShown, JobsShown
from index.truth.joblist import Job
from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Depends

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
Here = Annotated[Office, Depends(office)]


@router.get("")
async def jobs(here: Here) -> JobsShown:
    """All jobs that are known, the youngest first."""
    return JobsShown(jobs=[shown(one) for one in await here.jobs.all()])


@router.get("/{job_id}", responses=refusals(404, 422))
async def job(here: Here, job_id: str) -> JobAnswer:
    """One job."""
    return JobAnswer(job=shown(await here.jobs.get(job_id)))


@router.post("/{job_id}/cancel", responses=refusals(404, 422))
async def cancel(here: Here, job_id: str) -> JobAnswer:
    """Ask a job to end; what it has done stays. It has ended when its state says so."""
    found = await here.jobs.cancel(job_id)
    here.audit.tell("cancel job", found.collection, [job_id], 1, 0)
    return JobAnswer(job=shown(found))


def shown(one: Job) -> JobShown:
    """A job as the wire shows it."""
    told = one.progress
    return JobShown(
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
