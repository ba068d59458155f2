"""The user's own folder: a thread of the service that keeps the collection as the folder is.

One *pass* has three steps. New items are written by their names and captions alone, so they are found within
seconds. Then all files are compared with the collection, as every ingest does it. Then pictures, views and
vectors follow, small files first. If the folder changes during that, the next pass begins, and what this one
has not reached comes with it. Nothing but the collection says what is done, so a killed service goes on
where it was. The last two steps have low priority, as requests come first.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from app.collections.collections import Collections, CollectionService
from app.ingest.pipeline import ENCODE_BATCH, WRITE_BATCH, EncodedItem, IngestStoppedError, encode_items
from app.ingest.plan import NAMED_ONLY, IngestPlan
from app.ingest.run import IngestDestination, IngestRequest, IngestRun, LazySandbox, own_folders
from app.ingest.sources import FileStamp, IngestTask, SourceFolder, find_source, record_source, stamp_file
from app.ingest.watching import hash_folder_state
from index.contracts import CollectionLocation
from index.registry import DEFAULT
from index.store.filters import parse_filter
from multifold.errors import MultifoldError
from multifold.files.folder import FileProblem
from multifold.machine import cores, lower_thread_priority
from multifold.types import FolderState
from multifold.wire.administration import FolderAnswer, FolderStatus, RefusedFile

log = logging.getLogger("multifold.app")
LOOK_SECONDS = 2.0  # between two looks at the folder, if they are quick
LOOK_SHARE = 20  # a look may take one part in so many of the time
SETTLE_LOOKS = 5  # looks for which a pass waits until the folder comes to rest
TRY_AGAIN_SECONDS = 5.0
CLOSE_SECONDS = 25.0  # for what is under way when the service ends
LEAST_TASKS = 64  # of a pass, so that one goes on in a folder that changes all the time
MOST_SHOWN = 1_000  # files that are listed with their reasons


class FolderFollower:
    """Follows one folder into the default collection, from its start until it is closed."""

    def __init__(self, collections: Collections, root: Path) -> None:
        self._collections, self._root = collections, root
        self._stop = threading.Event()
        self._status = FolderStatus(name=root.name or "root", state="naming", done=0, total=0, refused=0)
        self._problems: list[FileProblem] = []
        self._notes: list[FileProblem] = []
        self._failed: dict[str, tuple[tuple[FileStamp, ...], FileProblem]] = {}  # by path
        self._unread: dict[str, FileStamp] = {}  # paths that no item came of, with their stamps then
        self._look_again = 0.0
        self._thread = threading.Thread(target=self._work, name="folder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop; what is not done yet is done after the next start."""
        self._stop.set()
        self._thread.join(CLOSE_SECONDS)

    @property
    def status(self) -> FolderStatus:
        return self._status

    def report(self) -> FolderAnswer:
        """How far it is, and what was left out."""
        lists = ([self._readable(one) for one in some[:MOST_SHOWN]] for some in (self._problems, self._notes))
        refused, notes = (tuple(RefusedFile(one.name, one.reason) for one in some) for some in lists)
        return FolderAnswer(folder=self._status, refused=refused, notes=notes)

    def _work(self) -> None:
        skip = own_folders(self._collections.settings)
        while not self._stop.is_set():
            try:
                before = self._settled(skip)
                if self._pass(before, skip):
                    self._tell("watching")
                    while not self._changed(before, skip):
                        self._rest()
            except IngestStoppedError:
                return
            except Exception as error:
                known = isinstance(error, (MultifoldError, OSError))
                if not known and not self._stop.is_set():
                    log.exception("the folder cannot be followed")
                reason = (
                    str(error) if known else "something broke on our side; the service's log has the details"
                )
                self._tell("waiting", trouble=reason)
                self._stop.wait(TRY_AGAIN_SECONDS)

    def _pass(self, before: bytes, skip: frozenset[Path]) -> bool:
        """Do what is to be done; False if the folder has changed meanwhile."""
        service = self._collections.service(DEFAULT)
        source = find_source(service.home, self._root)
        run = self._run(service, source)
        record_source(service.home, source)
        self._name(run, service)
        with ThreadPoolExecutor(1, initializer=lower_thread_priority) as patient:  # what it starts is so too
            finished = patient.submit(self._follow, run, service, before, skip).result()
        if finished:
            self._drop_unread(service, source)
        return finished

    def _follow(
        self, run: IngestRun, service: CollectionService, before: bytes, skip: frozenset[Path]
    ) -> bool:
        """Make the collection as the folder is; False if the folder has changed before the last item."""
        self._tell("comparing")
        with LazySandbox(cores(), service.settings.render_seconds) as sandbox:
            plan = run.compare(sandbox)
            if plan.deleted:
                service.delete(plan.deleted)
            self._problems = list(plan.skipped)
            return self._encode(run, service, sandbox, self._tasks(plan), before, skip)

    def _run(self, service: CollectionService, source: SourceFolder) -> IngestRun:
        settings = service.settings
        place = CollectionLocation(service.home, settings.items_at, settings.bucket)
        destination = IngestDestination(service.name, place, None)
        request = IngestRequest([self._root], service.name)
        return IngestRun(request, settings, service.encoder, destination, source, service.collection)

    def _name(self, run: IngestRun, service: CollectionService) -> None:
        """Write the new items with their texts alone."""
        self._tell("naming")
        started, items = time.monotonic(), list(run.names(self._unread))
        self._tell("naming", total=len(items))
        batches = iter(items)
        while batch := list(islice(batches, WRITE_BATCH)):
            self._check()
            encoded = [one for one in encode_items(service.observer, batch) if isinstance(one, EncodedItem)]
            service.put(encoded)
            self._tell("naming", done=self._status.done + len(batch), total=len(items))
        if items:
            self._say(f"{len(items)} new items are found by name ({time.monotonic() - started:.1f} s)")

    def _tasks(self, plan: IngestPlan) -> list[IngestTask]:
        """What is to be written: first what needs no pictures, then small files; not what failed as it is."""
        tasks = plan.tasks()
        stamps = {task.payload["path"]: task.stamps for task in tasks}
        self._failed = {path: one for path, one in self._failed.items() if stamps.get(path) == one[0]}
        self._problems += [problem for _, problem in self._failed.values()]
        todo = [task for task in tasks if task.payload["path"] not in self._failed]
        return sorted(todo, key=lambda task: (not task.keeps_pictures, task.payload["size"]))

    def _encode(
        self,
        run: IngestRun,
        service: CollectionService,
        sandbox: LazySandbox,
        tasks: Sequence[IngestTask],
        before: bytes,
        skip: frozenset[Path],
    ) -> bool:
        """Carry out the tasks; False if the folder has changed before the last of them."""
        self._tell("encoding", total=len(tasks))
        if not tasks:
            return True
        started, given = time.monotonic(), 0

        def unless_changed() -> Iterator[IngestTask]:
            nonlocal given
            for task in tasks:
                self._check()
                if given >= LEAST_TASKS and self._changed(before, skip):
                    return
                given += 1
                yield task

        pipeline = run.pipeline(tasks, sandbox, write=service.put, together=ENCODE_BATCH, stop=self._stop)
        by_id = {task.id: task for task in tasks}
        for count in pipeline.run(unless_changed()):
            self._tell("encoding", done=self._status.done + count, total=len(tasks))
        self._notes = [*pipeline.warnings, *self._notes][:MOST_SHOWN]
        for problem in pipeline.skipped:
            task = by_id[problem.name]
            problem = replace(problem, name=str(task.payload["path"]))
            self._failed[problem.name] = task.stamps, problem
            self._problems.append(problem)
        seconds = time.monotonic() - started
        taken = self._status.done - len(pipeline.skipped)
        self._say(f"{taken} of {len(tasks)} items are taken in ({seconds:.1f} s)")
        return given == len(tasks)

    def _drop_unread(self, service: CollectionService, source: SourceFolder) -> None:
        """Items that are still known by name alone after a whole pass have files that cannot be read."""
        where = parse_filter({"source": source.name, "content": NAMED_ONLY})
        while items := service.collection.scroll(limit=WRITE_BATCH, where=where):
            for item in items:
                path = str(item.payload["path"])
                with suppress(OSError):
                    self._unread[path] = stamp_file(source.root / path)
            service.delete([item.id for item in items])

    def _settled(self, skip: frozenset[Path]) -> bytes:
        """The state of the folder once it has come to rest, or after some looks."""
        state = hash_folder_state(self._root, skip)
        for _ in range(SETTLE_LOOKS if self._status.state == "watching" else 0):
            self._rest()
            before, state = state, hash_folder_state(self._root, skip)
            if before == state:
                break
        return state

    def _changed(self, before: bytes, skip: frozenset[Path]) -> bool:
        """Whether the folder is another one now, as far as it is time to look."""
        now = time.monotonic()
        if now < self._look_again:
            return False
        changed = hash_folder_state(self._root, skip) != before
        took = time.monotonic() - now
        self._look_again = now + max(LOOK_SECONDS, LOOK_SHARE * took)
        return changed

    def _rest(self) -> None:
        self._stop.wait(LOOK_SECONDS)
        self._check()

    def _check(self) -> None:
        if self._stop.is_set():
            raise IngestStoppedError

    def _tell(self, state: FolderState, done: int = 0, total: int = 0, trouble: str | None = None) -> None:
        name, refused = self._status.name, len(self._problems)
        self._status = FolderStatus(
            name=name, state=state, done=done, total=total, refused=refused, trouble=trouble
        )

    def _say(self, sentence: str) -> None:
        print(f"folder {self._root}: {sentence}", flush=True)

    def _readable(self, problem: FileProblem) -> FileProblem:
        """A problem by the place of its file in the folder."""
        return replace(problem, name=problem.name.removeprefix(f"{self._root}/"))
