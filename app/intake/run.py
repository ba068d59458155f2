"""One run of an ingest: compare, carry out, report. Into a collection of our own, or through its service."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from app.drawn import Drawn
from app.intake import manifest as intake_manifest
from app.intake import plan as intake_plan
from app.intake.content import Contents
from app.intake.drawers import Drawers
from app.intake.pipeline import Intake
from app.intake.place import Place, place_of
from app.intake.plan import Plan
from app.intake.report import Report, report_of
from app.intake.send import Sender
from app.intake.sources import Source, remember, source_of
from app.settings import Settings
from index.collection import Collection
from index.names import MAIN
from multifold import folder, manifest
from multifold.encoder import Encoder
from multifold.errors import MultifoldError, needs_extra
from multifold.folder import By, Layout, Problem
from renderers.files.container import CONVERTERS, EXTENSIONS

with needs_extra("serve"):
    from tqdm import tqdm

MEMORY = "contents.sqlite"
T = TypeVar("T")


class IngestError(MultifoldError):
    """What was asked for makes no sense; says why."""


@dataclass(frozen=True)
class Asked:
    """What is to be taken in, and how."""

    what: Sequence[Path]
    collection: str = MAIN
    split: str | None = None
    by: By = "file"
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


def once(asked: Asked, settings: Settings, encoder: Encoder) -> Report:
    """One run; says where to, and returns what became of everything."""
    started = time.monotonic()
    place = place_of(settings, asked.collection, encoder, create=not asked.dry_run)
    through = f" through {place.service}" if place.service else ""
    print(f"ingesting {_shown(asked.what)} into {place.home} with {encoder.bundle.name}{through}", flush=True)
    source = None if asked.is_manifest else source_of(place.home, asked.home)
    looks_only = asked.dry_run or place.service is not None
    drawers = Drawers(asked.workers, settings.render_seconds)
    with place.opened(encoder, read_only=looks_only) as collection, drawers:
        with Contents(place.home / MEMORY if place.home.is_dir() else None) as contents:
            early = None if looks_only else drawers
            plan = _plan(asked, settings, place, encoder, collection, contents, source, early)
        if asked.dry_run:
            return report_of(plan, [])
        if source is not None:
            remember(place.home, source)
        skipped = _carry_out(plan, asked, settings, place, encoder, collection, drawers)
        report = report_of(plan, skipped, time.monotonic() - started)
        if collection is not None:
            print(f"the collection holds {collection.count()} items")
    return report


def skipped_folders(settings: Settings) -> frozenset[Path]:
    """Folders that are ours, and no items."""
    return frozenset((settings.data.resolve(), settings.bundle.resolve()))


def _plan(
    asked: Asked,
    settings: Settings,
    place: Place,
    encoder: Encoder,
    collection: Collection | None,
    contents: Contents,
    source: Source | None,
    drawers: Drawers | None,
) -> Plan:
    comparing = partial(_with_bar, "comparing")
    if source is None:
        entries = list(manifest.read(asked.what[0], asked.split))
        drawn = Drawn(place.home / "drawn", encoder.bundle.views)
        return intake_manifest.plan(comparing(entries), collection, drawn, contents)
    layout = Layout(
        EXTENSIONS,
        contents.companions,
        asked.by,
        skipped_folders(settings),
        CONVERTERS,
        watching=partial(_reading, contents, drawers),
    )
    whole = asked.what[0].is_dir()
    found = folder.read(source.root, layout, None if whole else asked.what, below=asked.home)
    scope = asked.home if whole else None
    plan = intake_plan.plan(
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
    plan: Plan,
    asked: Asked,
    settings: Settings,
    place: Place,
    encoder: Encoder,
    collection: Collection | None,
    drawers: Drawers,
) -> list[Problem]:
    works = plan.works()
    if place.service is not None:
        with place.client() as client:
            if plan.deleted:
                client.delete_many(plan.deleted)
            sender = Sender(client, collection, Drawn(place.home / "drawn", encoder.bundle.views))
            _watched(sender.take(works), len(works))
        return sender.skipped
    assert collection is not None  # it is open for writing
    if plan.deleted:
        collection.delete(plan.deleted)
    if not works:
        return []
    sandbox = drawers.for_meshes(sum(work.mesh is not None for work in works))
    copy = asked.copy or place.at.database is not None  # others who read it may not see our files
    intake = Intake(encoder, collection, sandbox, settings, place.home, copy=copy)
    _watched(intake.take(works), len(works))
    return intake.skipped


def _watched(done: Iterable[int], total: int) -> None:
    """Let it run, with items a second and the time that is left."""
    with tqdm(total=total, unit="item", desc="taking in", disable=None) as bar:
        for count in done:
            bar.update(count)


def _reading(contents: Contents, drawers: Drawers | None, meshes: Sequence[Path]) -> Iterator[Path]:
    going = _with_bar("reading meshes", meshes)
    return going if drawers is None else drawers.watching(going, contents)


def _with_bar(what: str, things: Sequence[T]) -> Iterator[T]:
    yield from tqdm(things, desc=what, unit="item", disable=None, delay=1)


def _shown(what: Sequence[Path]) -> str:
    return str(what[0]) if len(what) == 1 else f"{len(what)} files"
