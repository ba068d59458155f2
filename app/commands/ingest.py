"""Put a folder, a manifest or single files into a collection: meshes are rendered, everything is encoded.

A second run touches only what changed: files that moved keep their item, items of files that are gone go
too. A run that was cut short goes on where it was when it is started again.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app import intake_manifest, intake_plan
from app.drawn import Drawn
from app.intake import Intake
from app.intake_content import Contents
from app.intake_plan import Plan
from app.intake_report import Report, report_of
from app.intake_sources import Source, remember, source_of
from app.intake_watch import changes
from app.observer import encoder_of
from app.settings import Settings, read_settings
from index.collection import Collection
from index.names import MAIN
from index.registry import ensured, planned
from multifold import folder, manifest
from multifold.encoder import Encoder
from multifold.errors import MultifoldError, needs_extra
from multifold.folder import Layout
from multifold.machine import cores
from renderers.files.container import CONVERTERS, EXTENSIONS
from renderers.sandbox import Sandbox

with needs_extra("serve"):
    from pydantic import SecretStr
    from tqdm import tqdm

MANIFEST = (".jsonl", ".ndjson")
MEMORY = "contents.sqlite"


class IngestError(MultifoldError):
    """What was asked for makes no sense; says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to take in, and where to."""
    parser.add_argument(
        "what", type=Path, nargs="+", metavar="PATH", help="a folder, a manifest (.jsonl), or files"
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the collection")
    parser.add_argument(
        "--collection", default=MAIN, help="one of those in that folder; a new name makes a new one"
    )
    parser.add_argument(
        "--bundle", type=Path, default=Path("bundles/furniture"), help="folder of the encoder"
    )
    parser.add_argument("--split", help="of a manifest: only the items of this split")
    parser.add_argument(
        "--item", choices=("file", "folder"), default="file", help="what one item is; default: %(default)s"
    )
    parser.add_argument("--no-names", action="store_true", help="file names are no captions")
    parser.add_argument("--allow-empty", action="store_true", help="delete all, if the folder is empty now")
    parser.add_argument("--dry-run", action="store_true", help="only say what would happen")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the whole report as JSON")
    parser.add_argument("--watch", action="store_true", help="stay, and follow changes of the folder")
    parser.add_argument("--every", type=float, default=2.0, help="with --watch: seconds between looks")
    parser.add_argument("--workers", type=int, default=cores(), help="processes that render")


def run(args: argparse.Namespace) -> int:
    """Take everything in and say what became of it."""
    settings = read_settings({"data": args.data, "bundle": args.bundle})
    _check(args)
    encoder = encoder_of(settings)
    settings = _located(args, settings, encoder)
    status = _once(args, settings, encoder)
    if args.watch:
        print(f"watching {args.what[0]}; stop with Ctrl-C", flush=True)
        for _ in changes(args.what[0], args.every, _skipped_folders(settings)):
            status = _once(args, settings, encoder)
    return status


def _check(args: argparse.Namespace) -> None:
    for path in args.what:
        if not path.exists():
            kind = "manifest" if path.suffix.lower() in MANIFEST else "file or folder"
            raise IngestError(f"there is no {kind} {path}")
    if len(args.what) > 1 and any(path.is_dir() or _is_manifest(path) for path in args.what):
        raise IngestError("give one folder, one manifest, or files; each folder takes a run of its own")
    if args.watch and not args.what[0].is_dir():
        raise IngestError("--watch follows a folder")
    if args.split and not _is_manifest(args.what[0]):
        raise IngestError("--split chooses among the items of a manifest")


def _once(args: argparse.Namespace, settings: Settings, encoder: Encoder) -> int:
    started = time.monotonic()
    print(f"ingesting {_shown(args.what)} into {settings.data} with {encoder.bundle.name}", flush=True)
    source = None if _is_manifest(args.what[0]) else source_of(settings.data, _home(args.what))
    with _collection(settings, encoder, read_only=args.dry_run) as collection:
        memory = settings.data / MEMORY if settings.data.is_dir() else None
        with Contents(memory) as contents:
            plan = _plan(args, settings, encoder, collection, contents, source)
        if args.dry_run or collection is None:
            return _tell(report_of(plan, []), args.report, dry=True)
        if source is not None:
            remember(settings.data, source)
        skipped = _carry_out(plan, args.workers, settings, encoder, collection)
        report = report_of(plan, skipped, time.monotonic() - started)
        print(f"the collection holds {collection.count()} items")
    return _tell(report, args.report)


def _plan(
    args: argparse.Namespace,
    settings: Settings,
    encoder: Encoder,
    collection: Collection | None,
    contents: Contents,
    source: Source | None,
) -> Plan:
    if source is None:
        entries = list(manifest.read(args.what[0], args.split))
        drawn = Drawn(settings.data / "drawn", encoder.bundle.views)
        return intake_manifest.plan(entries, collection, drawn, contents)
    layout = Layout(EXTENSIONS, contents.companions, args.item, _skipped_folders(settings), CONVERTERS)
    whole = args.what[0].is_dir()
    found = folder.read(source.root, layout, None if whole else args.what, below=_home(args.what))
    scope = _home(args.what) if whole else None
    plan = intake_plan.plan(found, source, scope, collection, contents, names=not args.no_names)
    if plan.deleted and not found.entries and not args.allow_empty:
        raise IngestError(
            f"{args.what[0]} holds nothing now, and {len(plan.deleted)} items came from it. Is its drive "
            "there? --allow-empty deletes them."
        )
    return plan


def _carry_out(
    plan: Plan, workers: int, settings: Settings, encoder: Encoder, collection: Collection
) -> list[folder.Problem]:
    works = plan.works()
    if plan.deleted:
        collection.delete(plan.deleted)
    if not works:
        return []
    with Sandbox(min(workers, len(works)), seconds=settings.render_seconds) as sandbox:
        intake = Intake(encoder, collection, sandbox, settings)
        with tqdm(total=len(works), unit="item", disable=None) as bar:
            for done in intake.take(works):
                bar.update(done)
    return intake.skipped


def _tell(report: Report, path: Path | None, *, dry: bool = False) -> int:
    print(("would be: " if dry else "") + report.counts())
    if dry:
        for name in ("added", "changed", "moved", "deleted"):
            for one in getattr(report, name)[:20]:
                print(f"  {name} {one}")
    for line in report.lines():
        print(line, file=sys.stderr)
    if path is not None:
        report.write(path)
    written = len(report.added) + len(report.changed) + len(report.moved) + report.unchanged
    return 1 if report.skipped and not written else 0


def _located(args: argparse.Namespace, settings: Settings, encoder: Encoder) -> Settings:
    """The settings of the collection that is meant; what is not there yet is made, unless we only look."""
    if args.collection == MAIN:
        return settings
    name, data, database = args.collection, settings.data, settings.items_at
    if args.dry_run:
        place = planned(data, database, name)
    else:
        place = ensured(data, database, name, encoder.vector_id, _writer())
    moved = None if place.database is None else SecretStr(place.database)
    return settings.model_copy(update={"data": place.folder, "database": moved})


def _writer() -> str:
    return f"multifold ingest, process {os.getpid()}"


@contextmanager
def _collection(settings: Settings, encoder: Encoder, *, read_only: bool) -> Iterator[Collection | None]:
    """The collection; to look only, None if there is none."""
    if read_only and settings.items_at is None and not (settings.data / "store.sqlite").is_file():
        yield None
        return
    writer = None if read_only else _writer()
    probes = encoder.bundle.probes()
    with Collection.open(
        settings.data,
        encoder,
        writer=writer,
        read_only=read_only,
        probes=probes,
        database=settings.items_at,
    ) as opened:
        yield opened


def _is_manifest(path: Path) -> bool:
    return path.suffix.lower() in MANIFEST and not path.is_dir()


def _home(what: list[Path]) -> Path:
    """The folder, or the one that holds all the files."""
    if what[0].is_dir():
        return what[0].resolve()
    return Path(os.path.commonpath([path.resolve().parent for path in what]))


def _skipped_folders(settings: Settings) -> frozenset[Path]:
    return frozenset((settings.data.resolve(), settings.bundle.resolve()))


def _shown(what: list[Path]) -> str:
    return str(what[0]) if len(what) == 1 else f"{len(what)} files"
