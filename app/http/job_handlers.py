"""Writes many items at once, and maps each kind of job to its handler.

A handler reports its progress, and may be cancelled at any `await`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from app.concurrency.batching import QueueFullError
from app.http.parsing import parse_item
from app.ingest.pipeline import EncodedItem, WrittenItem
from app.ingest.uploads import ItemFiles
from app.runtime.jobs import JobHandler
from app.runtime.rebuild import REBUILD_JOB, REINDEX_JOB, run_rebuild, run_reindex
from app.runtime.runtime import CollectionRuntime, Runtime
from index.jobs import JobProgress, JobRecord
from multifold.errors import MultifoldError

ITEMS_AT_ONCE = 4  # items of one request that are prepared side by side, so that others wait less
ITEMS_A_STEP = 16  # items of a job that are written together
INGEST_JOB = "ingest"


async def write_many(
    runtime: CollectionRuntime, raws: Sequence[Mapping[str, Any]]
) -> list[WrittenItem | MultifoldError]:
    """Write items, each on its own: one that is refused does not keep the others out."""
    turns = asyncio.Semaphore(ITEMS_AT_ONCE)
    items = await asyncio.gather(*(_prepare_item(runtime, raw, turns) for raw in raws))
    outcomes = await runtime.put(items)
    written = [outcome.item.id for outcome in outcomes if isinstance(outcome, WrittenItem)]
    if written:
        runtime.audit("put", written, len(written))
    return outcomes


async def _prepare_item(
    runtime: CollectionRuntime, raw: Mapping[str, Any], turns: asyncio.Semaphore
) -> EncodedItem | MultifoldError:
    settings = runtime.service.settings
    async with turns:
        try:
            files = ItemFiles(runtime.parent.fetcher, settings.max_body)
            return await runtime.prepare(await parse_item(raw, files, settings))
        except MultifoldError as error:
            return error


def job_handlers(runtime: Runtime) -> Mapping[str, JobHandler]:
    """The handler of each kind of job."""
    return {
        INGEST_JOB: partial(_ingest, runtime),
        REBUILD_JOB: partial(run_rebuild, runtime),
        REINDEX_JOB: partial(run_reindex, runtime),
    }


async def _ingest(runtime: Runtime, job: JobRecord, progress: JobProgress) -> None:
    """Write items; what was written before an interruption is not written again."""
    collection, items = await runtime.collection(job.collection), job.spec["items"]
    while progress.done < len(items):
        batch = items[progress.done : progress.done + ITEMS_A_STEP]
        outcomes = await write_many(collection, batch)
        if busy := [outcome for outcome in outcomes if isinstance(outcome, QueueFullError)]:
            await asyncio.sleep(max(one.retry_after or 1 for one in busy))
            continue  # an item that is written twice is the same item
        for raw, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, WrittenItem):
                progress.result["written"] = progress.result.get("written", 0) + 1
            else:
                progress.error(f"{raw.get('id')!r}: {outcome}")
        progress.done += len(batch)
