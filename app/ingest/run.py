"""One run of an ingest: find the collection, or the service that has it open; compare, carry out, report."""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from app.ingest.pipeline import IngestPipeline, PreparedItem
from app.ingest.plan import IngestPlan, plan_folder, plan_manifest, plan_names
from app.ingest.sender import ServiceSender
from app.ingest.sources import (
    ContentCache,
    FileStamp,
    IngestTask,
    SourceFolder,
    ViewCache,
    find_source,
    record_source,
)
from app.settings import Settings
from index.collection import Collection
from index.contracts import CollectionLocation
from index.registry import MAIN, ensure_collection, locate_planned_collection
from index.store.folder_locks import writer_of
from multifold import manifest
from multifold.bundle.encoder import Encoder
from multifold.client.client import Client
from multifold.errors import MultifoldError
from multifold.files import folder
from multifold.files.folder import FileProblem, FolderLayout, ItemUnit
from renderers.mesh.formats.mesh_file import CONVERTERS, EXTENSIONS, peek_companions
from renderers.sandbox import Sandbox

PROBLEMS_SHOWN = 20
WRITER = f"multifold ingest, process {os.getpid()}"
CONTENT_CACHE_FILE = "contents.sqlite"
SERVICE_TIMEOUT = 600.0  # seconds for a service that draws and encodes
T = TypeVar("T")


@dataclass(frozen=True)
class IngestRequest:
    """What is to be ingested, and how."""

    paths: Sequence[Path]
    collection: str = MAIN
    split: str | None = None
    unit: ItemUnit = "file"
    names: bool = True
    metadata: bool = True
    allow_empty: bool = False
    dry_run: bool = False
    copy: bool = False  # originals are copied, not kept in place
    workers: int = 1

    @property
    def is_manifest(self) -> bool:
        return self.paths[0].suffix.lower() in manifest.SUFFIXES and not self.paths[0].is_dir()

    @property
    def root(self) -> Path:
        """The folder, or the one that holds all the files."""
        first = self.paths[0].resolve()
        return first if first.is_dir() else Path(os.path.commonpath([p.resolve().parent for p in self.paths]))


@dataclass
class IngestReport:
    """Ids of items by what became of them; what was left out, with the reason and what to do."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0
    skipped: list[FileProblem] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)  # files that belong to no item
    warnings: list[FileProblem] = field(default_factory=list)  # what was lost of items that are in
    seconds: float = 0.0

    def counts(self) -> str:
        lists = (f"{len(getattr(self, name))} {name}" for name in ("added", "changed", "moved", "deleted"))
        return ", ".join([*lists, f"{self.unchanged} unchanged, {len(self.skipped)} skipped"])

    def lines(self) -> list[str]:
        lines = [f"  {problem}" for problem in self.skipped[:PROBLEMS_SHOWN]]
        if (more := len(self.skipped) - PROBLEMS_SHOWN) > 0:
            lines.append(f"  … and {more} more; --report FILE writes all of them")
        lines += [f"  note on {warning}" for warning in self.warnings[:PROBLEMS_SHOWN]]
        if (more := len(self.warnings) - PROBLEMS_SHOWN) > 0:
            lines.append(f"  … and {more} more notes; --report FILE writes all of them")
        if self.passed_over:
            lines.append(f"  {len(self.passed_over)} other files were passed over")
        return lines

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def make_report(
    plan: IngestPlan,
    skipped: list[FileProblem],
    seconds: float = 0.0,
    warnings: Sequence[FileProblem] = (),
) -> IngestReport:
    lost = {problem.name for problem in skipped}
    added, changed, moved = (
        [task.id for task in tasks if task.id not in lost] for tasks in (plan.added, plan.changed, plan.moved)
    )
    report = IngestReport(added, changed, moved, plan.deleted, plan.unchanged, [*plan.skipped, *skipped])
    notes = list(warnings)
    return replace(report, passed_over=plan.passed_over, warnings=notes, seconds=round(seconds, 3))


class LazySandbox(AbstractContextManager["LazySandbox"]):
    """Processes that render, started together and once, when there is something to render."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._started: Sandbox | None = None

    def for_meshes(self, count: int) -> Sandbox:
        if self._started is None:
            self._started = Sandbox(min(self._most, count), seconds=self._seconds)
        return self._started

    def watching(self, meshes: Iterable[Path], contents: ContentCache) -> Iterator[Path]:
        """Passes meshes on that are read, and starts once there is a new one for each process."""
        for mesh in meshes:
            yield mesh
            if contents.read >= self._most:
                self.for_meshes(self._most)

    def __exit__(self, *_: object) -> None:
        if self._started is not None:
            self._started.close()


@dataclass(frozen=True)
class IngestDestination:
    """One collection, by its name or an alias."""

    name: str
    location: CollectionLocation
    service: str | None  # the address of the service that has it open

    @property
    def home(self) -> Path:
        """Its folder."""
        return self.location.folder

    def client(self) -> Client:
        assert self.service is not None
        return Client(self.service, SERVICE_TIMEOUT, os.environ.get("MULTIFOLD_KEY"), self.name)

    @contextmanager
    def opened(self, encoder: Encoder, settings: Settings, *, read_only: bool) -> Iterator[Collection | None]:
        """The collection; if it is only to be read, None where nothing was ever written."""
        database = self.location.database
        if read_only and database is None and not (self.home / "store.sqlite").is_file():
            yield None
            return
        with Collection.open(
            self.home,
            encoder,
            writer=None if read_only else WRITER,
            read_only=read_only,
            probes=encoder.bundle.probes(),
            database=database,
            bucket=self.location.bucket,
            cluster=settings.cluster,
            reader=encoder.reader,
        ) as collection:
            yield collection


def find_destination(settings: Settings, name: str, encoder: Encoder, *, create: bool) -> IngestDestination:
    """The collection of a name or alias; with `create`, a missing one is made."""
    main, service = settings.place, None
    if settings.items_at is None and settings.data.is_dir():  # else several processes may write
        writer = writer_of(settings.data)
        service = writer if writer is not None and writer.startswith("http") else None
    if name == MAIN:
        return IngestDestination(name, main, service)
    if create and service is None:
        return IngestDestination(name, ensure_collection(main, name, encoder.vector_id, WRITER), None)
    if create:
        with IngestDestination(MAIN, main, service).client() as client:
            if name not in {known for one in client.collections() for known in (one.name, *one.aliases)}:
                client.create_collection(name)
    return IngestDestination(name, locate_planned_collection(main, name), service)


def run_ingest(request: IngestRequest, settings: Settings, encoder: Encoder) -> IngestReport:
    """One run; prints the destination, and returns what became of everything."""
    started = time.monotonic()
    destination = find_destination(settings, request.collection, encoder, create=not request.dry_run)
    files = str(request.paths[0]) if len(request.paths) == 1 else f"{len(request.paths)} files"
    through = f" through {destination.service}" if destination.service else ""
    print(f"ingesting {files} into {destination.home} with {encoder.bundle.name}{through}", flush=True)
    read_only = request.dry_run or destination.service is not None
    sandbox = LazySandbox(request.workers, settings.render_seconds)
    with destination.opened(encoder, settings, read_only=read_only) as collection, sandbox:
        source = None if request.is_manifest else find_source(destination.home, request.root)
        run = IngestRun(request, settings, encoder, destination, source, collection)
        plan = run.compare(None if read_only else sandbox)
        if request.dry_run:
            return make_report(plan, [])
        if source is not None:
            record_source(destination.home, source)
        skipped, warnings = run.carry_out(plan, sandbox)
        report = make_report(plan, skipped, time.monotonic() - started, warnings)
        if collection is not None:
            print(f"the collection holds {collection.count()} items")
    return report


def own_folders(settings: Settings) -> frozenset[Path]:
    """Folders of the service, which hold no items."""
    return frozenset((settings.data.resolve(), settings.bundle.resolve()))


@dataclass(frozen=True)
class IngestRun:
    """What is compared and carried out, for one request."""

    request: IngestRequest
    settings: Settings
    encoder: Encoder
    destination: IngestDestination
    source: SourceFolder | None  # None for a manifest
    collection: Collection | None  # None if it is only to be read, and there is none

    def compare(self, sandbox: LazySandbox | None) -> IngestPlan:
        """What has to be done; a sandbox starts as soon as there are new meshes."""
        request, home = self.request, self.destination.home
        with ContentCache(home / CONTENT_CACHE_FILE if home.is_dir() else None) as contents:
            if self.source is not None:
                return self._compare_folder(self.source, contents, sandbox)
            entries = _with_bar("comparing", list(manifest.read(request.paths[0], request.split)))
            views = ViewCache(home, self.encoder.bundle.views)
            return plan_manifest(entries, self.collection, views, contents)

    def _compare_folder(
        self, source: SourceFolder, contents: ContentCache, sandbox: LazySandbox | None
    ) -> IngestPlan:
        request = self.request

        def watch(meshes: Sequence[Path]) -> Iterator[Path]:
            shown = _with_bar("reading meshes", meshes)
            return shown if sandbox is None else sandbox.watching(shown, contents)

        layout = self._layout(contents.companions, watch)
        chosen, scope = (None, request.root) if request.paths[0].is_dir() else (request.paths, None)
        files = folder.read(source.root, layout, chosen, below=request.root)
        captions = {"names": request.names, "metadata": request.metadata}
        bar = partial(_with_bar, "comparing")
        plan = plan_folder(files, source, scope, self.collection, contents, watching=bar, **captions)
        if plan.deleted and not files.entries and not request.allow_empty:
            gone = f"{request.paths[0]} holds nothing now, and {len(plan.deleted)} items came from it"
            raise MultifoldError(f"{gone}. Is its drive there? --allow-empty deletes them.")
        return plan

    def names(self, passed: Mapping[str, FileStamp]) -> Iterator[PreparedItem]:
        """The new items of the folder by their names and captions; see `plan_names`."""
        assert self.source is not None
        assert self.collection is not None
        root = self.source.root
        files = folder.read(root, self._layout(peek_companions), below=self.request.root)
        return plan_names(files, self.source, self.collection, passed)

    def _layout(
        self,
        companions: Callable[[Path, Path], Iterable[Path]],
        watching: Callable[[Sequence[Path]], Iterable[Path]] = iter,
    ) -> FolderLayout:
        skip = own_folders(self.settings)
        return FolderLayout(EXTENSIONS, companions, self.request.unit, skip, CONVERTERS, watching)

    def carry_out(
        self, plan: IngestPlan, sandbox: LazySandbox
    ) -> tuple[list[FileProblem], list[FileProblem]]:
        """Delete and write; the items that were skipped, and notes on those that are in."""
        tasks, destination, collection = plan.tasks(), self.destination, self.collection
        if destination.service is not None:
            with destination.client() as client:
                if plan.deleted:
                    client.delete_many(plan.deleted)
                views = ViewCache(destination.home, self.encoder.bundle.views)
                sender = ServiceSender(client, collection, views)
                _show_progress(sender.run(tasks), len(tasks))
            return sender.skipped, sender.warnings
        assert collection is not None  # it is open for writing
        if plan.deleted:
            collection.delete(plan.deleted)
        if not tasks:
            return [], []
        pipeline = self.pipeline(tasks, sandbox)
        _show_progress(pipeline.run(tasks), len(tasks))
        return pipeline.skipped, pipeline.warnings

    def pipeline(self, tasks: Sequence[IngestTask], sandbox: LazySandbox, **how: Any) -> IngestPipeline:  # noqa: ANN401
        """What writes these tasks to the open collection; `how` is passed on to it."""
        assert self.collection is not None
        # Other processes that read a shared database may not see our files.
        copy = self.request.copy or self.destination.location.database is not None
        renderers = sandbox.for_meshes(sum(task.mesh is not None for task in tasks))
        home = self.destination.home
        return IngestPipeline(self.encoder, self.collection, renderers, self.settings, home, copy=copy, **how)


def _show_progress(done: Iterable[int], total: int) -> None:
    with tqdm(total=total, unit="item", desc="taking in", disable=None) as bar:
        for count in done:
            bar.update(count)


def _with_bar(title: str, things: Sequence[T]) -> Iterator[T]:
    yield from tqdm(things, desc=title, unit="item", disable=None, delay=1)
