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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.collections.service import CollectionService
from app.ingest.pipeline import ENCODE_BATCH, WRITE_BATCH, IngestPipeline, IngestStoppedError
from app.ingest.plan import NAMED_ONLY, IngestPlan, plan_names
from app.ingest.progress import ProgressLines
from app.ingest.run import IngestDestination, IngestRequest, compare, open_pipeline, own_folders
from app.ingest.sources import FileStamp, IngestTask, SourceFolder, find_source, record_source, stamp_file
from app.ingest.watching import FolderWatch
from app.settings import Settings
from index.contracts import CollectionLocation
from index.store.filters import parse_filter
from multifold.errors import MultifoldError
from multifold.files import folder
from multifold.files.folder import FileProblem
from multifold.machine import cores, lower_thread_priority
from multifold.types import FolderState
from multifold.wire.administration import FolderAnswer, FolderStatus, RefusedFile
from renderers.lanes import TOO_LONG
from renderers.mesh.formats.mesh_file import peek_companions
from renderers.mesh.formats.table import EXTENSIONS
from renderers.sandbox import Sandbox

log = logging.getLogger("multifold.app")
LOOK_SECONDS = 2.0  # between two looks at the folder, if they are quick
SETTLE_LOOKS = 5  # looks for which a pass waits until the folder comes to rest
TRY_AGAIN_SECONDS = 5.0
CLOSE_SECONDS = 25.0  # for what is under way when the service ends
LEAST_TASKS = 64  # of a pass, so that one goes on in a folder that changes all the time
LISTED_FILES = 1_000  # files that are listed with their reasons


@dataclass
class RefusedFiles:
    """Files that gave no item, and notes on others. A file is tried again once it has changed."""

    problems: list[FileProblem] = field(default_factory=list)
    notes: list[FileProblem] = field(default_factory=list)
    failed: dict[str, tuple[tuple[FileStamp, ...], FileProblem]] = field(default_factory=dict)  # by path
    slow: dict[str, tuple[FileStamp, ...]] = field(default_factory=dict)  # paths that were tried again
    unread: dict[str, FileStamp] = field(default_factory=dict)  # paths of which no item came, by name alone

    def choose(self, plan: IngestPlan) -> list[IngestTask]:
        """What is to be written: what needs no pictures, then photos, which are seen soonest, then meshes;
        small files first. What failed is left out as long as it is as it was.
        """
        tasks = plan.tasks()
        stamps = {task.payload["path"]: task.stamps for task in tasks}
        self.failed = {path: one for path, one in self.failed.items() if stamps.get(path) == one[0]}
        self.problems = [*plan.skipped, *(problem for _, problem in self.failed.values())]
        past = {*plan.deleted, *(task.id for task in tasks)}  # what is written gets its notes anew
        kept = [note for note in self.notes if note.name not in past]
        self.notes = list(dict.fromkeys([*kept, *plan.notes]))
        todo = [task for task in tasks if task.payload["path"] not in self.failed]
        return sorted(
            todo, key=lambda task: (not task.keeps_pictures, task.mesh is not None, task.payload["size"])
        )

    def note(self, pipeline: IngestPipeline, tasks: Sequence[IngestTask]) -> None:
        """Keep what a pipeline has skipped and noted."""
        self.notes = [*pipeline.warnings, *self.notes]
        by_id = {task.id: task for task in tasks}
        for problem in pipeline.skipped:
            task = by_id[problem.name]
            path = str(task.payload["path"])
            files = [*task.images, *([] if task.mesh is None else [task.mesh.path])]
            others = [file.name for file in files if file.name != Path(path).name]
            beside = f" With it, {' and '.join(others)} is left out." if others else ""
            problem = FileProblem(path, f"{problem.reason}{beside}")
            self.failed[problem.name] = task.stamps, problem
            self.problems.append(problem)

    def drop_slow(self) -> bool:
        """Let meshes that took too long be tried once more; whether there are any."""
        slow = [path for path, (_, problem) in self.failed.items() if TOO_LONG in problem.reason]
        again = [path for path in slow if self.slow.get(path) != self.failed[path][0]]
        for path in again:
            self.slow[path], _ = self.failed.pop(path)
        return bool(again)


class FolderFollower:
    """Follows a folder of the settings into the default collection, from its start until it is closed."""

    def __init__(self, settings: Settings, root: Path, default: Callable[[], CollectionService]) -> None:
        self._root = root
        self._default = default
        self._stop = threading.Event()
        self._watch = FolderWatch(root, own_folders(settings), LOOK_SECONDS, self._rest)
        self._status = FolderStatus(name=root.name or "root", state="naming", done=0, total=0, refused=0)
        self._refused = RefusedFiles()
        self._captioned = 0
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
        refused = tuple(map(self._shown, self._refused.problems[:LISTED_FILES]))
        notes = tuple(map(self._shown, self._refused.notes[:LISTED_FILES]))
        return FolderAnswer(folder=self._status, refused=refused, notes=notes)

    def _shown(self, problem: FileProblem) -> RefusedFile:
        """A problem by the place of its file in the folder."""
        above = f"{self._root}/"
        return RefusedFile(problem.name.removeprefix(above), problem.reason.replace(above, ""))

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                looks = SETTLE_LOOKS if self._status.state == "watching" else 0
                before = self._watch.settled(looks)
                if self._pass(before) and not self._refused.drop_slow():
                    self._show("watching")
                    self._watch.wait_for_change(before)
            except IngestStoppedError:
                return
            except Exception as error:
                known = isinstance(error, (MultifoldError, OSError))
                if not known and not self._stop.is_set():
                    log.exception("the folder cannot be followed")
                reason = (
                    str(error) if known else "something broke on our side; the service's log has the details"
                )
                self._show("waiting", trouble=reason)
                self._stop.wait(TRY_AGAIN_SECONDS)

    def _pass(self, before: bytes) -> bool:
        """Do what is to be done; False if the folder has changed meanwhile."""
        service = self._default()
        settings = service.settings
        location = CollectionLocation(service.home, settings.items_at, settings.bucket)
        destination = IngestDestination(service.name, location, settings, service.encoder, service.collection)
        request = IngestRequest([self._root], service.name)
        source = find_source(service.home, self._root)
        record_source(service.home, source)
        new = self._new_items(request, destination, source)
        meshes = any(Path(str(task.payload["path"])).suffix.lower() in EXTENSIONS for task in new)
        # What it starts has a low priority, too. What draws new meshes starts while their names are written.
        with (
            ThreadPoolExecutor(1, initializer=lower_thread_priority) as thread,
            thread.submit(
                Sandbox, cores(), seconds=settings.render_seconds, ready=meshes
            ).result() as sandbox,
        ):
            if new:
                self._name(service, destination, sandbox, new)
            finished = thread.submit(self._follow, service, request, destination, sandbox, before).result()
        if finished:
            self._drop_unread(service, source)
        return finished

    def _new_items(
        self, request: IngestRequest, destination: IngestDestination, source: SourceFolder
    ) -> list[IngestTask]:
        """The items of new files, with their texts alone."""
        assert destination.collection is not None
        self._show("naming")
        layout = request.layout(destination.settings, peek_companions)
        files = folder.read(source.root, layout, below=self._root)
        self._captioned = sum(bool(entry.texts) for entry in files.entries)
        return plan_names(files, source, destination.collection, self._refused.unread)

    def _name(
        self,
        service: CollectionService,
        destination: IngestDestination,
        sandbox: Sandbox,
        tasks: Sequence[IngestTask],
    ) -> None:
        """Write new items with their texts alone."""
        started = time.monotonic()
        with open_pipeline(destination, sandbox, write=service.put, stop=self._stop) as pipeline:
            self._run(pipeline, "naming", tasks, len(tasks))
        self._say(f"{len(tasks)} new items are found by name ({time.monotonic() - started:.1f} s)")

    def _follow(
        self,
        service: CollectionService,
        request: IngestRequest,
        destination: IngestDestination,
        sandbox: Sandbox,
        before: bytes,
    ) -> bool:
        """Make the collection as the folder is; False if the folder has changed before the last item."""
        self._show("comparing")
        plan = compare(request, destination)
        if plan.deleted:
            service.delete(plan.deleted)
        tasks = self._refused.choose(plan)
        self._show("encoding", total=len(tasks))
        if not tasks:
            return True
        started = time.monotonic()
        given = 0

        def unless_changed() -> Iterator[IngestTask]:
            nonlocal given
            for task in tasks:
                if given >= LEAST_TASKS and self._watch.changed(before):
                    return
                given += 1
                yield task

        with open_pipeline(
            destination, sandbox, write=service.put, together=ENCODE_BATCH, stop=self._stop
        ) as pipeline:
            self._run(pipeline, "encoding", unless_changed(), len(tasks))
        self._refused.note(pipeline, tasks)
        written = self._status.done - len(pipeline.skipped)
        self._say(f"{written} of {len(tasks)} items are ingested ({time.monotonic() - started:.1f} s)")
        return given == len(tasks)

    def _run(
        self, pipeline: IngestPipeline, state: FolderState, tasks: Iterable[IngestTask], total: int
    ) -> None:
        """Carry out tasks, and show how far it is."""
        self._show(state, total=total)
        lines = ProgressLines(state, total, self._say)
        for count in pipeline.run(tasks):
            self._show(state, done=self._status.done + count, total=total)
            lines.show(self._status.done)

    def _drop_unread(self, service: CollectionService, source: SourceFolder) -> None:
        """Items that are still known by name alone after a whole pass have files that cannot be read."""
        where = parse_filter({"source": source.name, "content": NAMED_ONLY})
        while items := service.collection.scroll(limit=WRITE_BATCH, where=where):
            for item in items:
                path = str(item.payload["path"])
                with suppress(OSError):
                    self._refused.unread[path] = stamp_file(source.root / path)
            service.delete([item.id for item in items])

    def _rest(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise IngestStoppedError

    def _show(self, state: FolderState, done: int = 0, total: int = 0, trouble: str | None = None) -> None:
        self._status = replace(
            self._status,
            state=state,
            done=done,
            total=total,
            refused=len(self._refused.problems),
            captioned=self._captioned,
            trouble=trouble,
        )

    def _say(self, sentence: str) -> None:
        print(f"folder {self._root}: {sentence}", flush=True)
