"""What each kind of job does. A worker says how far it is, and may be cancelled between two of its steps."""

import asyncio
from collections.abc import Mapping

from app.batching import Busy
from app.jobs import Worker
from app.many import write_many
from app.offload import Office
from app.rebuild import REBUILD, rebuild
from app.reindex import REINDEX, reindex
from app.service import Stored
from index.truth.joblist import Job, Progress

STEP = 16  # items of a job that are written together
INGEST = "ingest"


def workers(office: Office) -> Mapping[str, Worker]:
    """The worker of each kind of job."""

    async def ingest(job: Job, progress: Progress) -> None:
        await _ingest(office, job, progress)

    async def anew(job: Job, progress: Progress) -> None:
        await rebuild(office, job, progress)

    async def index(job: Job, progress: Progress) -> None:
        await reindex(office, job, progress)

    return {INGEST: ingest, REBUILD: anew, REINDEX: index}


async def _ingest(office: Office, job: Job, progress: Progress) -> None:
    """Write items; what was written before an interruption is not written again."""
    at, items = await office.desk(job.collection), job.spec["items"]
    while progress.done < len(items):
        some = items[progress.done : progress.done + STEP]
        outcomes = await write_many(at, some)
        if busy := [outcome for outcome in outcomes if isinstance(outcome, Busy)]:
            await asyncio.sleep(max(one.retry_after or 1 for one in busy))
            continue  # an item that is written twice is the same item
        for raw, outcome in zip(some, outcomes, strict=True):
            if isinstance(outcome, Stored):
                progress.result["written"] = progress.result.get("written", 0) + 1
            else:
                progress.error(f"{raw.get('id')!r}: {outcome}")
        progress.done += len(some)
