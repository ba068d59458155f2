"""An ingest from top to bottom: find the collection or its service, compare, carry out, report."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tqdm import tqdm

from app.encoding.observations import ObservationEncoder
from app.ingest.caches import CONTENTS_FILE, ContentCache, ViewCache
from app.ingest.originals import OriginalFiles
from app.ingest.pipeline import WRITE_BATCH, IngestPipeline, ItemWriter
from app.ingest.plan import IngestPlan, plan_folder, plan_manifest
from app.ingest.progress import ProgressLines, show_progress
from app.ingest.report import IngestReport
from app.ingest.sender import ServiceSender
from app.ingest.sources import find_source, record_source
from app.settings import Settings
from index.collection import Collection
from index.contracts import CollectionLocation
from index.names import MAIN
from index.registry import ensure_collection, locate_planned_collection
from index.store.folder_locks import writer_of
from multifold import manifest
from multifold.bundle.encoder import Encoder
from multifold.client import Client
from multifold.errors import MultifoldError
from multifold.files import folder
from multifold.files.folder import FolderLayout, ItemUnit
from renderers.mesh.formats.mesh_file import CONVERTERS
from renderers.mesh.formats.table import EXTENSIONS
from renderers.sandbox import Sandbox

WRITER = f"multifold ingest, process {os.getpid()}"
SERVICE_TIMEOUT = 600.0  # seconds for a service that draws and encodes
DISK_WRITERS = 16  # blobs that are made durable at once


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

    def layout(self, settings: Settings, companions: Callable[[Path, Path], Iterable[Path]]) -> FolderLayout:
        return FolderLayout(EXTENSIONS, companions, self.unit, own_folders(settings), CONVERTERS)


@dataclass(frozen=True)
class IngestDestination:
    """The collection that is ingested into, by its name or an alias, as this process has it."""

    name: str
    location: CollectionLocation
    settings: Settings
    encoder: Encoder
    collection: Collection | None  # None: it is only read, and nothing was ever written
    service: str | None = None  # the address of the service that has it open for writing

    @property
    def home(self) -> Path:
        return self.location.folder

    @property
    def views(self) -> ViewCache:
        return ViewCache(self.home, self.encoder.bundle.views)

    def client(self) -> Client:
        assert self.service is not None
        return _client(self.service, self.name)


def own_folders(settings: Settings) -> frozenset[Path]:
    """Folders of the service, which hold no items."""
    return frozenset((settings.data.resolve(), settings.bundle.resolve()))


def run_ingest(request: IngestRequest, settings: Settings, encoder: Encoder) -> IngestReport:
    """One run; prints the destination, and returns what became of everything."""
    started = time.monotonic()
    with open_destination(request, settings, encoder) as destination:
        files = str(request.paths[0]) if len(request.paths) == 1 else f"{len(request.paths)} files"
        through = f" through {destination.service}" if destination.service is not None else ""
        print(f"ingesting {files} into {destination.home} with {encoder.bundle.name}{through}", flush=True)
        plan = compare(request, destination)
        if request.dry_run:
            return IngestReport.of(plan)
        if plan.source is not None:
            record_source(destination.home, plan.source)
        done = carry_out(plan, destination, workers=request.workers, copy=request.copy)
        if destination.collection is not None:
            print(f"the collection holds {destination.collection.count()} items")
    return IngestReport.of(plan, done.skipped, done.warnings, time.monotonic() - started)


@contextmanager
def open_destination(
    request: IngestRequest, settings: Settings, encoder: Encoder
) -> Iterator[IngestDestination]:
    """The collection of a request; a missing one is made unless it is a dry run."""
    service = _find_service(settings)
    location = _locate(request, settings, encoder, service)
    read_only = request.dry_run or service is not None
    with _opened(location, settings, encoder, read_only=read_only) as collection:
        yield IngestDestination(request.collection, location, settings, encoder, collection, service)


def _find_service(settings: Settings) -> str | None:
    """The address of the service that has the collections open for writing."""
    if settings.items_at is not None or not settings.data.is_dir():
        return None  # several processes may write, or nobody does
    writer = writer_of(settings.data)
    return writer if writer is not None and writer.startswith("http") else None


def _locate(
    request: IngestRequest, settings: Settings, encoder: Encoder, service: str | None
) -> CollectionLocation:
    main = settings.place
    name = request.collection
    if name == MAIN:
        return main
    if not request.dry_run and service is None:
        return ensure_collection(main, name, encoder.vector_id, WRITER)
    if not request.dry_run and service is not None:
        _ensure_served(service, name)
    return locate_planned_collection(main, name)


def _client(url: str, collection: str) -> Client:
    return Client(url, SERVICE_TIMEOUT, os.environ.get("MULTIFOLD_KEY"), collection)


def _ensure_served(url: str, name: str) -> None:
    """Have a service make a collection, unless it has it."""
    with _client(url, MAIN) as client:
        if name not in {known for one in client.collections() for known in (one.name, *one.aliases)}:
            client.create_collection(name)


@contextmanager
def _opened(
    location: CollectionLocation, settings: Settings, encoder: Encoder, *, read_only: bool
) -> Iterator[Collection | None]:
    """The collection; if it is only to be read, None where nothing was ever written."""
    if read_only and location.database is None and not (location.folder / "store.sqlite").is_file():
        yield None
        return
    with Collection.open(
        location.folder,
        encoder,
        writer=None if read_only else WRITER,
        read_only=read_only,
        probes=encoder.bundle.probes(),
        database=location.database,
        bucket=location.bucket,
        cluster=settings.cluster,
        reader=encoder.reader,
    ) as collection:
        yield collection


def compare(request: IngestRequest, destination: IngestDestination) -> IngestPlan:
    """What has to be done to make the collection as the files are."""
    with ContentCache(destination.home / CONTENTS_FILE if destination.home.is_dir() else None) as contents:
        if request.is_manifest:
            entries = list(manifest.read(request.paths[0], request.split))
            return plan_manifest(entries, destination.collection, destination.views, contents)
        source = find_source(destination.home, request.root)
        lines = ProgressLines("reading meshes", None)
        with tqdm(desc="reading meshes", unit="mesh", disable=None, delay=1) as bar:
            numbers = count(1)

            def companions(mesh: Path, root: Path) -> Iterable[Path]:
                bar.update()
                if bar.disable:
                    lines.show(next(numbers))
                return contents.companions(mesh, root)

            layout = request.layout(destination.settings, companions)
            whole = request.paths[0].is_dir()
            chosen = None if whole else request.paths
            files = folder.read(source.root, layout, chosen, below=request.root)
        scope = request.root if whole else None
        plan = plan_folder(
            files,
            source,
            scope,
            destination.collection,
            contents,
            names=request.names,
            metadata=request.metadata,
        )
    if plan.deleted and not files.entries and not request.allow_empty:
        gone = f"{request.paths[0]} holds nothing now, and {len(plan.deleted)} items came from it"
        raise MultifoldError(f"{gone}. Is its drive there? --allow-empty deletes them.")
    return plan


def carry_out(
    plan: IngestPlan, destination: IngestDestination, *, workers: int, copy: bool
) -> IngestPipeline | ServiceSender:
    """Delete and write; what did it knows what was skipped, and has notes on what is in."""
    tasks = plan.tasks()
    if destination.service is not None:
        with destination.client() as client:
            if plan.deleted:
                client.delete_many(plan.deleted)
            sender = ServiceSender(client, destination.collection, destination.views)
            for _ in show_progress("ingesting", sender.run(tasks), len(tasks), int):
                pass
            return sender
    assert destination.collection is not None  # it is open for writing
    if plan.deleted:
        destination.collection.delete(plan.deleted)
    meshes = sum(task.mesh is not None and not task.keeps_pictures for task in tasks)
    with (
        Sandbox(min(workers, meshes), seconds=destination.settings.render_seconds) as sandbox,
        open_pipeline(destination, sandbox, copy=copy) as pipeline,
    ):
        for _ in show_progress("ingesting", pipeline.run(tasks), len(tasks), int):
            pass
        return pipeline


@contextmanager
def open_pipeline(
    destination: IngestDestination,
    sandbox: Sandbox,
    *,
    copy: bool = False,
    write: ItemWriter | None = None,
    together: int = WRITE_BATCH,
    stop: threading.Event | None = None,
) -> Iterator[IngestPipeline]:
    """What writes tasks to the open collection."""
    assert destination.collection is not None
    # Other processes that read a shared database may not see our files.
    copy = copy or destination.location.database is not None
    with OriginalFiles(destination.collection.blobs, copy=copy, writers=DISK_WRITERS) as originals:
        observer = ObservationEncoder(destination.encoder, sandbox, destination.settings)
        yield IngestPipeline(
            destination.collection, observer, originals, write=write, together=together, stop=stop
        )
