"""One run of an ingest: compare, carry out, report; again when a folder has changed."""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from app.ingest import plan as intake_manifest
from app.ingest import plan as intake_plan
from app.ingest.caches import ContentCache, ViewCache
from app.ingest.destination import IngestDestination, ServiceSender, find_destination
from app.ingest.pipeline import IngestPipeline
from app.ingest.plan import IngestPlan
from app.ingest.sources import SourceFolder, find_source, record_source
from app.settings import Settings
from index.collection import Collection
from index.registry import MAIN
from multifold import manifest
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError, needs_extra
from multifold.files import folder
from multifold.files.folder import FileProblem, FolderLayout, ItemUnit
from renderers.mesh.formats.mesh_file import CONVERTERS, EXTENSIONS
from renderers.sandbox import Sandbox

with needs_extra("serve"):
    from tqdm import tqdm


PROBLEMS_SHOWN = 20


@dataclass
class IngestReport:
    """Ids of items by what became of them; what was left out, with the reason and what to do."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0
    skipped: list[FileProblem] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)  # files that are neither seen nor read
    seconds: float = 0.0

    def counts(self) -> str:
        """In one line."""
        lists = ("added", "changed", "moved", "deleted")
        told = [f"{len(getattr(self, name))} {name}" for name in lists]
        return ", ".join([*told, f"{self.unchanged} unchanged, {len(self.skipped)} skipped"])

    def lines(self) -> list[str]:
        """What was left out, the first of it."""
        told = [f"  {problem}" for problem in self.skipped[:PROBLEMS_SHOWN]]
        if len(self.skipped) > PROBLEMS_SHOWN:
            told.append(
                f"  … and {len(self.skipped) - PROBLEMS_SHOWN} more; --report FILE writes all of them"
            )
        if self.passed_over:
            told.append(f"  {len(self.passed_over)} other files were passed over")
        return told

    def write(self, path: Path) -> None:
        """All of it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def make_report(plan: IngestPlan, skipped: list[FileProblem], seconds: float = 0.0) -> IngestReport:
    """What a plan came to, but for what was skipped on the way."""
    lost = {problem.name for problem in skipped}
    added, changed, moved = (
        [work.id for work in works if work.id not in lost] for works in (plan.added, plan.changed, plan.moved)
    )
    problems = [*plan.skipped, *skipped]
    return IngestReport(
        added, changed, moved, plan.deleted, plan.unchanged, problems, plan.passed_over, round(seconds, 3)
    )


class LazySandbox:
    """At most so many processes, started together and once."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._started: Sandbox | None = None

    def for_meshes(self, count: int) -> Sandbox:
        """As many as have something to do."""
        if self._started is None:
            self._started = Sandbox(min(self._most, count), seconds=self._seconds)
        return self._started

    def watching(self, meshes: Iterable[Path], contents: ContentCache) -> Iterator[Path]:
        """Goes through meshes that are read, and starts once there is something new for each process."""
        for mesh in meshes:
            yield mesh
            if contents.read >= self._most:
                self.for_meshes(self._most)

    def __enter__(self) -> "LazySandbox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started is not None:
            self._started.close()


def watch_folder(folder: Path, seconds: float, skip: frozenset[Path]) -> Iterator[None]:
    """Yields at once, and then each time the folder is not what it was before the last visit, and rests."""
    while True:
        known = hash_folder_state(folder, skip)
        yield
        while (now := hash_folder_state(folder, skip)) == known:
            time.sleep(seconds)
        while (later := _state_after(folder, seconds, skip)) != now:
            now = later


def hash_folder_state(folder: Path, skip: frozenset[Path]) -> bytes:
    """Names, sizes and times of all files, as a hash."""
    digest = hashlib.sha256()
    for here, inside, names in os.walk(folder):
        inside[:] = sorted(
            name for name in inside if not name.startswith(".") and Path(here, name).resolve() not in skip
        )
        for name in sorted(names):
            try:
                seen = os.stat(os.path.join(here, name))
            except OSError:
                continue
            digest.update(os.fsencode(os.path.join(here, name)))
            digest.update(f" {seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns}\n".encode())
    return digest.digest()


def _state_after(folder: Path, seconds: float, skip: frozenset[Path]) -> bytes:
    time.sleep(seconds)
    return hash_folder_state(folder, skip)


CONTENT_CACHE_FILE = "contents.sqlite"
T = TypeVar("T")


class IngestError(MultifoldError):
    """What was asked for makes no sense; says why."""


@dataclass(frozen=True)
class IngestRequest:
    """What is to be taken in, and how."""

    what: Sequence[Path]
    collection: str = MAIN
    split: str | None = None
    by: ItemUnit = "file"
    names: bool = True
    metadata: bool = True
    allow_empty: bool = False
    dry_run: bool = False
    copy: bool = False  # originals are copied, not kept where they lie
    workers: int = 1

    @property
    def is_manifest(self) -> bool:
        """Whether it is a list of items."""
        return self.what[0].suffix.lower() in manifest.SUFFIXES and not self.what[0].is_dir()

    @property
    def home(self) -> Path:
        """The folder, or the one that holds all the files."""
        if self.what[0].is_dir():
            return self.what[0].resolve()
        return Path(os.path.commonpath([path.resolve().parent for path in self.what]))


def run_ingest(asked: IngestRequest, settings: Settings, encoder: Encoder) -> IngestReport:
    """One run; says where to, and returns what became of everything."""
    started = time.monotonic()
    place = find_destination(settings, asked.collection, encoder, create=not asked.dry_run)
    through = f" through {place.service}" if place.service else ""
    print(
        f"ingesting {_describe_paths(asked.what)} into {place.home} with {encoder.bundle.name}{through}",
        flush=True,
    )
    source = None if asked.is_manifest else find_source(place.home, asked.home)
    looks_only = asked.dry_run or place.service is not None
    drawers = LazySandbox(asked.workers, settings.render_seconds)
    with place.opened(encoder, read_only=looks_only) as collection, drawers:
        with ContentCache(place.home / CONTENT_CACHE_FILE if place.home.is_dir() else None) as contents:
            early = None if looks_only else drawers
            plan = _make_plan(asked, settings, place, encoder, collection, contents, source, early)
        if asked.dry_run:
            return make_report(plan, [])
        if source is not None:
            record_source(place.home, source)
        skipped = _carry_out(plan, asked, settings, place, encoder, collection, drawers)
        report = make_report(plan, skipped, time.monotonic() - started)
        if collection is not None:
            print(f"the collection holds {collection.count()} items")
    return report


def skipped_folders(settings: Settings) -> frozenset[Path]:
    """Folders that are ours, and no items."""
    return frozenset((settings.data.resolve(), settings.bundle.resolve()))


def _make_plan(
    asked: IngestRequest,
    settings: Settings,
    place: IngestDestination,
    encoder: Encoder,
    collection: Collection | None,
    contents: ContentCache,
    source: SourceFolder | None,
    drawers: LazySandbox | None,
) -> IngestPlan:
    comparing = partial(_iterate_with_bar, "comparing")
    if source is None:
        entries = list(manifest.read(asked.what[0], asked.split))
        drawn = ViewCache(place.home / "drawn", encoder.bundle.views)
        return intake_manifest.plan_manifest(comparing(entries), collection, drawn, contents)
    layout = FolderLayout(
        EXTENSIONS,
        contents.companions,
        asked.by,
        skipped_folders(settings),
        CONVERTERS,
        watching=partial(_read_meshes, contents, drawers),
    )
    whole = asked.what[0].is_dir()
    found = folder.read(source.root, layout, None if whole else asked.what, below=asked.home)
    scope = asked.home if whole else None
    plan = intake_plan.plan_folder(
        found,
        source,
        scope,
        collection,
        contents,
        names=asked.names,
        metadata=asked.metadata,
        watching=comparing,
    )
    if plan.deleted and not found.entries and not asked.allow_empty:
        raise IngestError(
            f"{asked.what[0]} holds nothing now, and {len(plan.deleted)} items came from it. Is its drive "
            "there? --allow-empty deletes them."
        )
    return plan


def _carry_out(
    plan: IngestPlan,
    asked: IngestRequest,
    settings: Settings,
    place: IngestDestination,
    encoder: Encoder,
    collection: Collection | None,
    drawers: LazySandbox,
) -> list[FileProblem]:
    works = plan.works()
    if place.service is not None:
        with place.client() as client:
            if plan.deleted:
                client.delete_many(plan.deleted)
            sender = ServiceSender(client, collection, ViewCache(place.home / "drawn", encoder.bundle.views))
            _run_with_bar(sender.take(works), len(works))
        return sender.skipped
    assert collection is not None  # it is open for writing
    if plan.deleted:
        collection.delete(plan.deleted)
    if not works:
        return []
    sandbox = drawers.for_meshes(sum(work.mesh is not None for work in works))
    copy = asked.copy or place.at.database is not None  # others who read it may not see our files
    intake = IngestPipeline(encoder, collection, sandbox, settings, place.home, copy=copy)
    _run_with_bar(intake.take(works), len(works))
    return intake.skipped


def _run_with_bar(done: Iterable[int], total: int) -> None:
    """Let it run, with items a second and the time that is left."""
    with tqdm(total=total, unit="item", desc="taking in", disable=None) as bar:
        for count in done:
            bar.update(count)


def _read_meshes(
    contents: ContentCache, drawers: LazySandbox | None, meshes: Sequence[Path]
) -> Iterator[Path]:
    going = _iterate_with_bar("reading meshes", meshes)
    return going if drawers is None else drawers.watching(going, contents)


def _iterate_with_bar(what: str, things: Sequence[T]) -> Iterator[T]:
    yield from tqdm(things, desc=what, unit="item", disable=None, delay=1)


def _describe_paths(what: Sequence[Path]) -> str:
    return str(what[0]) if len(what) == 1 else f"{len(what)} files"
