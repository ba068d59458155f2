"""Jobs: long work that goes on after its request was answered."""

from datetime import datetime
from typing import Any

from index.jobs import JobState
from multifold.errors import needs_extra

with needs_extra("serve"):
    from pydantic import BaseModel, Field


class JobResource(BaseModel):
    """One job as it stands."""

    id: str
    kind: str
    collection: str
    state: JobState
    done: int
    total: int
    errors: list[str] = Field(description="the first of what went wrong; `result` says how often in all")
    result: dict[str, Any]
    created: datetime
    ended: datetime | None


class JobsAnswer(BaseModel):
    """All jobs that are known, the youngest first."""

    jobs: list[JobResource]


class JobAnswer(BaseModel):
    """The job that does what was asked."""

    job: JobResource
