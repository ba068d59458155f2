"""Another index of a collection, as a job: nothing is encoded again, and searches go on meanwhile."""

import threading
from functools import partial

from app.offload import Office
from index.plan import Plan
from index.truth.joblist import Job, Progress
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from starlette.concurrency import run_in_threadpool

REINDEX = "reindex"


class CalledOffError(MultifoldError):
    """The job was cancelled, or the service ends: the index stays as it is."""


async def reindex(office: Office, job: Job, progress: Progress) -> None:
    """The job: its spec is the plan. An interruption begins it anew."""
    collection = (await office.desk(job.collection)).service.collection
    over = threading.Event()

    def told(done: int) -> None:
        if over.is_set():
            raise CalledOffError("the new index was called off")
        progress.done = done

    progress.total = sum((await run_in_threadpool(collection.observations)).values())
    try:
        reports = await run_in_threadpool(partial(collection.reindex, Plan(**job.spec), told))
    finally:
        over.set()
    told_of = {" ".join(segment): [str(one) for one in found] for segment, found in reports.items()}
    progress.result |= {"sealed": told_of}
