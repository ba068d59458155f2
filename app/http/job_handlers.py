"""Writes many items at once, and says what each kind of job does.

A handler reports its progress, and may be cancelled at any `await`."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from app.collections.collections import WrittenItem
from app.concurrency.batching import QueueFullError
from app.http.parsing import parse_item
from app.ingest.preparation import PreparedItem
from app.ingest.uploads import ItemFiles
from app.runtime.jobs import JobHandler
from app.runtime.rebuild import REBUILD_JOB, REINDEX_JOB, run_rebuild, run_reindex
from app.runtime.runtime import CollectionRuntime, Runtime
from index.jobs import JobProgress, JobRecord
from multifold.errors import MultifoldError

ITEMS_AT_ONCE = 4  # items of one request that are made side by side; others shall have their turn


async def write_many(
    at: CollectionRuntime, raws: Sequence[Mapping[str, Any]]
) -> list[WrittenItem | MultifoldError]:
    """What became of each; one that is refused does not keep the others out."""
    turns = asyncio.Semaphore(ITEMS_AT_ONCE)
    made = await asyncio.gather(*(_prepare_item(at, raw, turns) for raw in raws))
    fit = [one for one in made if isinstance(one, PreparedItem)]
    stored = iter(await at.run(lambda: at.service.put(fit)) if fit else [])
    outcomes = [next(stored) if isinstance(one, PreparedItem) else one for one in made]
    written = [outcome.prepared.item.id for outcome in outcomes if isinstance(outcome, WrittenItem)]
    if written:
        at.audit("put", written, len(written))
    return outcomes


async def _prepare_item(
    at: CollectionRuntime, raw: Mapping[str, Any], turns: asyncio.Semaphore
) -> PreparedItem | MultifoldError:
    settings = at.service.settings
    async with turns:
        try:
            files = ItemFiles(at.runtime.fetcher, settings.max_body)
            return await at.prepare(await parse_item(raw, files, settings))
        except MultifoldError as error:
            return error


ITEMS_A_STEP = 16  # items of a job that are written together
INGEST_JOB = "ingest"


def job_handlers(runtime: Runtime) -> Mapping[str, JobHandler]:
    """The worker of each kind of job."""

    async def ingest(job: JobRecord, progress: JobProgress) -> None:
        await _ingest(runtime, job, progress)

    async def anew(job: JobRecord, progress: JobProgress) -> None:
        await run_rebuild(runtime, job, progress)

    async def index(job: JobRecord, progress: JobProgress) -> None:
        await run_reindex(runtime, job, progress)

    return {INGEST_JOB: ingest, REBUILD_JOB: anew, REINDEX_JOB: index}


async def _ingest(runtime: Runtime, job: JobRecord, progress: JobProgress) -> None:
    """Write items; what was written before an interruption is not written again."""
    at, items = await runtime.collection(job.collection), job.spec["items"]
    while progress.done < len(items):
        some = items[progress.done : progress.done + ITEMS_A_STEP]
        outcomes = await write_many(at, some)
        if busy := [outcome for outcome in outcomes if isinstance(outcome, QueueFullError)]:
            await asyncio.sleep(max(one.retry_after or 1 for one in busy))
            continue  # an item that is written twice is the same item
        for raw, outcome in zip(some, outcomes, strict=True):
            if isinstance(outcome, WrittenItem):
                progress.result["written"] = progress.result.get("written", 0) + 1
            else:
                progress.error(f"{raw.get('id')!r}: {outcome}")
        progress.done += len(some)
