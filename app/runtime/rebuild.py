"""Jobs that rebuild a collection in another one, or its index, while it is read and written.

A rebuild copies every item, then whatever the change log names, until nothing is left. The new collection is
verified, and an alias may be moved to it. Requests that resolved the alias before may still write to the
former collection: its change log is followed until the last of them has ended. A move is reversed by the same
job in the other direction, which copies later writes only. A reindex encodes nothing again.
"""

import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from app.collections.service import CollectionService
from app.concurrency.batching import QueueFullError
from app.encoding.observations import MeshData
from app.errors import ApiError
from app.ingest.originals import OriginalFiles, adopt_originals, find_stored_mesh
from app.ingest.pipeline import Encoded
from app.ingest.sources import ItemSource
from app.runtime import probes
from app.runtime.collections import Collections
from index.contracts import stored_plan
from index.jobs import JobProgress, TakenJob
from index.store import browse
from index.store.blobs import BlobKey
from index.store.feedback import Judgement, page_of_judgements
from index.store.metadata import changed_items, last_change
from multifold.errors import MultifoldError
from multifold.types import Item

REBUILD_JOB = "rebuild"
RESTORE_JOB = "restore"
ITEMS_A_PAGE = 16
ITEMS_AT_ONCE = 4
FOLLOW_SECONDS = 0.5  # between two reads of the change log
MOST_MISSING = 100
COUNT_TRIES = 10


async def run_rebuild(collections: Collections, job: TakenJob, progress: JobProgress) -> None:
    """The job: spec has `to`, `alias`, `partial` and `since`."""
    source, target = await collections.find(job.collection), await collections.find(job.spec["to"])
    copier = CollectionCopier(source, target, progress)
    if (since := job.spec.get("since")) is None:
        await copier.copy_all()
    else:
        progress.result.setdefault("version", since)
    await copier.catch_up()
    await copier.verify(some_missing=job.spec["partial"])
    await copier.copy_verdicts()
    if job.spec["alias"] is None:
        return
    await copier.catch_up()
    progress.result.setdefault("moved_at", target.collection.version)
    alias = job.spec["alias"]
    name = target.name
    listing = await collections.run(collections.listing)
    if listing.aliases.get(alias) != name:  # else the job was interrupted after it had moved it
        former = await collections.run(lambda: collections.set_alias(alias, name))
        progress.result |= {"alias": alias, "former": former}
        collections.workers.audit.record(f"set alias {alias}", name, [], 1, 0)
    now = asyncio.get_running_loop().time
    end = now() + longest_request(collections)
    while now() < end:
        await copier.catch_up()
        await asyncio.sleep(FOLLOW_SECONDS)
    await copier.catch_up()
    await copier.copy_verdicts()  # those that came meanwhile too


def longest_request(collections: Collections) -> float:
    """Seconds after which every request that is under way now has ended."""
    return collections.settings.request_timeout


class CollectionCopier:
    """Copies items from one collection to another; the progress records how far it is."""

    def __init__(self, source: CollectionService, target: CollectionService, progress: JobProgress) -> None:
        self._progress = progress
        self._source = source
        self._target = target
        self._from = source.collection
        self._to = target.collection
        self._missing: dict[str, str] = progress.result.setdefault("missing", {})

    async def copy_all(self) -> None:
        """Copy every item, in the order of their ids; then delete what only the target has."""
        result = self._progress.result
        if "version" not in result:
            result["version"] = self._from.read(last_change)
            self._progress.total = await self._target.run(self._from.count)
        while not result.get("whole"):
            after = result.get("after")
            page = await self._source.run(partial(self._from.scroll, after, ITEMS_A_PAGE))
            await self._copy(page)
            self._progress.done += len(page)
            if len(page) < ITEMS_A_PAGE:
                await self._target.run(self._delete_others)
                result["whole"] = True
            else:
                result["after"] = page[-1].id

    def _delete_others(self) -> None:
        self._target.delete(sorted({*self._to.ids()} - {*self._from.ids()}))

    async def catch_up(self) -> None:
        while True:
            since = self._progress.result["version"]
            version, ids = await self._source.run(partial(self._from.read, changed_items, since))
            if ids is None:
                raise MultifoldError("the log was shortened meanwhile: start again")
            for start in range(0, len(ids), ITEMS_A_PAGE):
                await self._copy_changed(ids[start : start + ITEMS_A_PAGE])
            self._progress.result["version"] = version
            if not ids:
                return

    async def _copy_changed(self, ids: Sequence[str]) -> None:
        items = await self._source.run(lambda: [self._from.get(name) for name in ids])
        gone = [name for name, item in zip(ids, items, strict=True) if item is None]
        await self._target.changes.remove(gone, of_job=True)
        for name in gone:
            self._missing.pop(name, None)
        await self._copy([item for item in items if item is not None])

    async def copy_verdicts(self) -> None:
        """Copy the verdicts with their queries; repeating it does no harm."""
        after: str | None = None
        while page := await self._source.run(
            partial(self._from.read, page_of_judgements, after, ITEMS_A_PAGE)
        ):
            await self._target.changes.run(partial(self._store_verdicts, page), of_job=True)
            after = page[-1].id

    def _store_verdicts(self, page: Sequence[Judgement]) -> None:
        for judgement in page:
            for part in judgement.query:
                if part.blob is not None:
                    self._to.blobs.put(self._from.blobs.get(part.blob), BlobKey(part.blob).suffix)
            self._to.judge(judgement)

    async def verify(self, *, some_missing: bool) -> None:
        """Check the number of items, and that a search finds a known one."""
        if self._missing and not some_missing:
            some = "; ".join(f"{name!r}: {why}" for name, why in list(self._missing.items())[:3])
            raise MultifoldError(f"{len(self._missing)} items could not be encoded again: {some}")
        for _ in range(COUNT_TRIES):  # both collections change meanwhile, so a difference has to last
            former, new = await self._target.run(lambda: (self._from.count(), self._to.count()))
            if former == new + len(self._missing):
                break
            await self.catch_up()
            await asyncio.sleep(FOLLOW_SECONDS)
        else:
            raise MultifoldError(f"the new collection has {new} items, and the former one {former}")
        await self._target.run(lambda: probes.check_readiness(self._target))

    async def _copy(self, page: Sequence[Item]) -> None:
        turns = asyncio.Semaphore(ITEMS_AT_ONCE)
        encoded = await asyncio.gather(*(self._prepare(item, turns) for item in page))
        written = await self._target.write(encoded, of_job=True)
        for item, outcome in zip(page, written, strict=True):
            if not isinstance(outcome, MultifoldError):
                self._missing.pop(item.id, None)
                continue
            trouble = f"{item.id!r}: {outcome}"
            self._missing[item.id] = str(outcome)
            self._progress.error(trouble)
            if len(self._missing) > MOST_MISSING:
                raise MultifoldError(
                    f"more than {MOST_MISSING} items could not be encoded again, such as {trouble}"
                )

    async def _prepare(self, item: Item, turns: asyncio.Semaphore) -> Encoded:
        async with turns:
            while True:
                try:
                    source = await self._source.run(partial(self._read, item))
                    originals = OriginalFiles(self._to.blobs, copy=False)
                    return await self._target.prepare(source, originals)
                except QueueFullError as error:
                    await asyncio.sleep(error.retry_after or 1)
                except MultifoldError as error:
                    return error

    def _read(self, item: Item) -> ItemSource:
        service = self._source
        blobs = self._from.blobs
        item = service.repaired(item)
        if any(one.text is None and one.blob is None and one.kind != "points" for one in item.observations):
            raise ApiError(422, "no_original", "it has vectors without a caption or picture to encode again")
        adopt_originals(self._to.blobs, blobs, item)
        mesh = None
        if any(one.kind == "view" for one in item.observations):
            mesh = find_stored_mesh(blobs, service.home, item)
            if mesh is None:
                raise ApiError(422, "no_original", "its mesh is not kept here; write it again with its mesh")
        return ItemSource(
            item.id,
            item.texts,
            images=tuple(map(blobs.get, item.pictures("photo"))),
            mesh=mesh,
            payload=item.payload,
            files=tuple(MeshData(blobs.get(key), BlobKey(key).suffix) for key in item.files),
        )


REINDEX_JOB = "reindex"


def snapshot_folder(service: CollectionService) -> Path:
    return service.home / "snapshots"


async def run_restore(collections: Collections, job: TakenJob, progress: JobProgress) -> None:
    """The job: its spec has `snapshot` and `to`."""
    source = await collections.find(job.collection)
    path = snapshot_folder(source) / job.spec["snapshot"]
    contents = await run_in_threadpool(collections.restore, path, source, job.spec["to"])
    progress.done = progress.total = contents.items
    progress.result |= {"to": job.spec["to"], "version": contents.version}


async def run_reindex(collections: Collections, job: TakenJob, progress: JobProgress) -> None:
    """The job: its spec is the plan. After an interruption it starts again."""
    collection = (await collections.find(job.collection)).collection
    over = threading.Event()

    def on_progress(done: int) -> None:
        if over.is_set():
            raise MultifoldError("the new index was cancelled")
        progress.done = done

    progress.total = sum((await run_in_threadpool(collection.read, browse.count_observations)).values())
    try:
        reports = await run_in_threadpool(partial(collection.reindex, stored_plan(job.spec), on_progress))
    finally:
        over.set()
    sealed = {" ".join(key): [str(report) for report in segments] for key, segments in reports.items()}
    progress.result |= {"sealed": sealed}
