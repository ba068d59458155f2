"""Jobs that rebuild a collection in another one, or its index, while it is read and written.

A rebuild copies every item, then whatever the change log names, until nothing is left. The new collection is
verified, and an alias may be moved to it. Requests that resolved the alias before may still write to the
former collection: its change log is followed until the last of them has ended. After an interruption nothing
is copied twice. A move is reversed by the same job in the other direction: only later writes are
copied. A reindex encodes nothing again.
"""

import asyncio
import threading
from collections.abc import Sequence
from functools import partial

from app.concurrency.batching import QueueFullError
from app.encoding.observations import MeshData
from app.errors import ApiError
from app.ingest.originals import adopt_originals, find_mesh_in_place
from app.ingest.preparation import ItemDraft, PreparedItem
from app.ingest.sources import find_original
from app.operations import readiness
from app.runtime.runtime import CollectionRuntime, Runtime
from index.contracts import IndexPlan
from index.jobs import JobProgress, JobRecord
from index.store.feedback import Judgement
from multifold.errors import MultifoldError, needs_extra
from multifold.types import Item
from renderers.contracts import Views
from renderers.mesh.formats.mesh_file import EXTENSIONS

with needs_extra("serve"):
    from starlette.concurrency import run_in_threadpool


REBUILD_JOB = "rebuild"
ITEMS_A_PAGE = 16
ITEMS_AT_ONCE = 4
FOLLOW_SECONDS = 0.5  # seconds between two looks at the log
MOST_MISSING = 100
COUNT_TRIES = 10


class RebuildError(MultifoldError):
    """The new collection is not what it should be; nothing was moved."""


async def run_rebuild(office: Runtime, job: JobRecord, progress: JobProgress) -> None:
    """The job: spec has `to`, `alias`, `partial` and `since`."""
    source, target = await office.desk(job.collection), await office.desk(job.spec["to"])
    carrier = CollectionCopier(office, source, target, progress)
    if (since := job.spec.get("since")) is None:
        await carrier.carry_all()
    else:
        progress.result.setdefault("version", since)
    await carrier.catch_up()
    await carrier.verify(some_missing=job.spec["partial"])
    await carrier.carry_verdicts()
    if job.spec["alias"] is None:
        return
    await carrier.catch_up()
    progress.result.setdefault("moved_at", target.service.collection.version)
    await _move_alias(office, job.spec["alias"], target.service.name, progress)
    now = asyncio.get_running_loop().time
    end = now() + longest_request(office)
    while now() < end:
        await carrier.catch_up()
        await asyncio.sleep(FOLLOW_SECONDS)
    await carrier.catch_up()
    await carrier.carry_verdicts()  # those that came meanwhile too


def longest_request(office: Runtime) -> float:
    """Seconds after which every request that is under way now has ended."""
    return office.shelf.settings.patience


async def _move_alias(office: Runtime, alias: str, name: str, progress: JobProgress) -> None:
    """Move the alias; once, even if the job was interrupted before it could say so."""
    listing = await office.quick.run(office.shelf.listing)
    if listing.aliases.get(alias) != name:
        former = await office.quick.run(lambda: office.shelf.set_alias(alias, name))
        progress.result |= {"alias": alias, "former": former}
        office.audit.tell(f"set alias {alias}", name, [], 1, 0)


class CollectionCopier:
    """Carries items from one collection to another. How far it is stands in the progress."""

    def __init__(
        self, office: Runtime, source: CollectionRuntime, target: CollectionRuntime, progress: JobProgress
    ) -> None:
        self._office, self._progress = office, progress
        self._source, self._target = source, target
        self._from, self._to = source.service.collection, target.service.collection
        self._missing: dict[str, str] = progress.result.setdefault("missing", {})

    async def carry_all(self) -> None:
        """Every item, in the order of their ids; then what only the target has goes."""
        result = self._progress.result
        if "version" not in result:
            result["version"] = self._from.changed(0)[0]
            self._progress.total = await self._target.run(self._from.count)
        while not result.get("whole"):
            after = result.get("after")
            page = await self._source.run(partial(self._from.scroll, after, ITEMS_A_PAGE))
            await self._carry(page)
            self._progress.done += len(page)
            if len(page) < ITEMS_A_PAGE:
                await self._target.run(self._remove_others)
                result["whole"] = True
            else:
                result["after"] = page[-1].id

    async def catch_up(self) -> None:
        """Whatever has changed since the last look, until nothing has."""
        while True:
            version, ids = await self._source.run(
                lambda: self._from.changed(self._progress.result["version"])
            )
            if ids is None:
                raise RebuildError("the log was shortened meanwhile: start again")
            for start in range(0, len(ids), ITEMS_A_PAGE):
                await self._carry_some(ids[start : start + ITEMS_A_PAGE])
            self._progress.result["version"] = version
            if not ids:
                return

    async def _carry_some(self, ids: Sequence[str]) -> None:
        found = await self._source.run(lambda: [self._from.get(one) for one in ids])
        gone = [name for name, item in zip(ids, found, strict=True) if item is None]
        await self._target.run(lambda: self._target.service.delete(gone))
        for name in gone:
            self._missing.pop(name, None)
        await self._carry([item for item in found if item is not None])

    async def carry_verdicts(self) -> None:
        """What people said of hits, with what they asked with; once more does no harm."""
        after: str | None = None
        while page := await self._source.run(partial(self._from.judgements, after, ITEMS_A_PAGE)):
            await self._target.run(partial(self._keep, page))
            after = page[-1].id

    def _keep(self, page: Sequence[Judgement]) -> None:
        for judgement in page:
            for part in judgement.query:
                if part.blob is not None:
                    self._to.blobs.put(self._from.blobs.get(part.blob), part.blob[64:])
            self._to.judge(judgement)

    async def verify(self, *, some_missing: bool) -> None:
        """As many items as there should be, and a real query finds a known one."""
        if self._missing and not some_missing:
            some = "; ".join(f"{name!r}: {why}" for name, why in list(self._missing.items())[:3])
            raise RebuildError(f"{len(self._missing)} items could not be made anew: {some}")
        await self._check_counts()
        await self._target.run(lambda: readiness.check_readiness(self._target.service))

    async def _check_counts(self) -> None:
        """Both are counted while they change, so a difference has to stay to be one."""
        for _ in range(COUNT_TRIES):
            counted = await self._target.run(lambda: (self._from.count(), self._to.count()))
            if counted[0] == counted[1] + len(self._missing):
                return
            await self.catch_up()
            await asyncio.sleep(FOLLOW_SECONDS)
        raise RebuildError(f"the new collection has {counted[1]} items, and the former one {counted[0]}")

    def _remove_others(self) -> None:
        others = sorted({*self._to.ids()} - {*self._from.ids()})
        self._target.service.delete(others)

    async def _carry(self, page: Sequence[Item]) -> None:
        turns = asyncio.Semaphore(ITEMS_AT_ONCE)
        made = await asyncio.gather(*(self._made(item, turns) for item in page))
        fit = [one for one in made if isinstance(one, PreparedItem)]
        stored = iter(await self._target.run(lambda: self._target.service.put(fit)) if fit else [])
        for item, one in zip(page, made, strict=True):
            outcome = next(stored) if isinstance(one, PreparedItem) else one
            if isinstance(outcome, MultifoldError):
                self._miss(item.id, str(outcome))
            else:
                self._missing.pop(item.id, None)

    def _miss(self, name: str, why: str) -> None:
        self._missing[name] = why
        self._progress.error(f"{name!r}: {why}")
        if len(self._missing) > MOST_MISSING:
            raise RebuildError(
                f"more than {MOST_MISSING} items could not be made anew, such as {name!r}: {why}"
            )

    async def _made(self, item: Item, turns: asyncio.Semaphore) -> PreparedItem | MultifoldError:
        async with turns:
            while True:
                try:
                    views = await self._office.draw.run(lambda: self._views(item))
                    return await self._target.run(partial(self._make, item, views))
                except QueueFullError as error:
                    await asyncio.sleep(error.retry_after or 1)
                except MultifoldError as error:
                    return error

    def _make(self, item: Item, views: Views | None) -> PreparedItem:
        blobs, seen = self._from.blobs, item.observations
        adopt_originals(self._to.blobs, blobs, item)
        texts = tuple(one.text for one in seen if one.text is not None)
        photos = tuple(blobs.get(one.blob) for one in seen if one.kind == "photo" and one.blob is not None)
        files = tuple((blobs.get(key), key[64:]) for key in item.files)
        draft = ItemDraft(item.id, texts, photos, views, item.payload, files, copy=False)
        return self._target.service.make(draft)

    def _views(self, item: Item) -> Views | None:
        """Its views drawn anew, as the other encoder knows shapes."""
        if not any(one.kind == "view" for one in item.observations):
            return None
        observer = self._target.service.observer
        if (lies := find_mesh_in_place(self._from.blobs, item.files)) is not None:
            return observer.draw_in_place(*lies)
        found = [self._from.blobs.get(key) for key in item.files]  # says which of them went away
        if len(found) == 1:
            return observer.draw(MeshData(found[0], item.files[0][64:]))
        place = find_original(self._source.service.home, item.payload)
        if place is not None and place[0].suffix.lower() in EXTENSIONS:
            return observer.draw_in_place(*place)
        raise ApiError(422, "no_original", "its mesh is not kept here; write it again with its mesh")


REINDEX_JOB = "reindex"


class JobCancelledError(MultifoldError):
    """The job was cancelled, or the service ends: the index stays as it is."""


async def run_reindex(office: Runtime, job: JobRecord, progress: JobProgress) -> None:
    """The job: its spec is the plan. An interruption begins it anew."""
    collection = (await office.desk(job.collection)).service.collection
    over = threading.Event()

    def told(done: int) -> None:
        if over.is_set():
            raise JobCancelledError("the new index was called off")
        progress.done = done

    progress.total = sum((await run_in_threadpool(collection.observations)).values())
    try:
        reports = await run_in_threadpool(partial(collection.reindex, IndexPlan(**job.spec), told))
    finally:
        over.set()
    told_of = {" ".join(segment): [str(one) for one in found] for segment, found in reports.items()}
    progress.result |= {"sealed": told_of}
