"""Writes many items: at once, each on its own, or as a job."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from app.collections.service import CollectionService
from app.concurrency.batching import QueueFullError
from app.ingest.new_items import load_item
from app.ingest.pipeline import Encoded, Written, WrittenItem
from app.ingest.uploads import ItemFiles
from app.runtime.collections import Collections
from app.runtime.jobs import JobHandler
from app.runtime.rebuild import REBUILD_JOB, REINDEX_JOB, RESTORE_JOB, run_rebuild, run_reindex, run_restore
from index.jobs import JobProgress, TakenJob
from multifold.errors import MultifoldError
from multifold.wire.items import NewItem
from multifold.wire.validation import validate

ITEMS_AT_ONCE = 4  # items of one request that are prepared side by side, so that others wait less
ITEMS_A_STEP = 16  # items of a job that are written together
MOST_NOTES = 100  # that the result of a job shows
INGEST_JOB = "ingest"


async def write_many(
    service: CollectionService, raws: Sequence[Mapping[str, Any]], *, of_job: bool = False
) -> list[Written]:
    """Write items, each on its own: one that is refused does not keep the others out."""
    turns = asyncio.Semaphore(ITEMS_AT_ONCE)
    items = await asyncio.gather(*(_prepare(service, raw, turns) for raw in raws))
    outcomes = await service.write(items, of_job=of_job)
    if written := [outcome.item.id for outcome in outcomes if isinstance(outcome, WrittenItem)]:
        service.audit("put", written, len(written))
    return outcomes


async def _prepare(service: CollectionService, raw: Mapping[str, Any], turns: asyncio.Semaphore) -> Encoded:
    settings = service.settings
    async with turns:
        try:
            files = ItemFiles(service.workers.fetcher, settings.max_body)
            return await service.prepare(await load_item(validate(NewItem, raw), files, settings))
        except MultifoldError as error:
            return error


def job_handlers(collections: Collections) -> Mapping[str, JobHandler]:
    return {
        INGEST_JOB: partial(run_ingest, collections),
        REBUILD_JOB: partial(run_rebuild, collections),
        REINDEX_JOB: partial(run_reindex, collections),
        RESTORE_JOB: partial(run_restore, collections),
    }


async def run_ingest(collections: Collections, job: TakenJob, progress: JobProgress) -> None:
    """The job: write `items` of its spec; what was written before an interruption is not written again."""
    service = await collections.find(job.collection)
    items = job.spec["items"]
    while progress.done < len(items):
        batch = items[progress.done : progress.done + ITEMS_A_STEP]
        outcomes = await write_many(service, batch, of_job=True)
        if busy := [outcome for outcome in outcomes if isinstance(outcome, QueueFullError)]:
            await asyncio.sleep(max(one.retry_after or 1 for one in busy))
            continue  # an item that is written twice is the same item
        for raw, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, WrittenItem):
                progress.result["written"] = progress.result.get("written", 0) + 1
                notes = progress.result.setdefault("warnings", []) if outcome.warnings else []
                notes += [f"{raw.get('id')!r}: {one}" for one in outcome.warnings][: MOST_NOTES - len(notes)]
            else:
                progress.error(f"{raw.get('id')!r}: {outcome}")
        progress.done += len(batch)
