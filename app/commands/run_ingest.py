"""The work of `multifold ingest`: one run, or one whenever the folder has changed."""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from app.encoding.encoders import with_recorded_bundle
from app.encoding.observations import open_drawing_encoder
from app.ingest.report import IngestReport
from app.ingest.run import IngestRequest, own_folders, run_ingest
from app.ingest.watching import FolderWatch
from app.libraries.contracts import Library, LibraryLimits
from app.libraries.mirror import mirror_library
from app.libraries.table import open_library
from app.settings import read_settings
from multifold import manifest
from multifold.errors import MultifoldError

LIBRARIES_FOLDER = "libraries"  # in the folder of the collections: the files of each, by its name


def run(args: argparse.Namespace) -> int:
    given = {"data": args.data, "bundle": args.bundle, "config": args.config}
    settings = with_recorded_bundle(read_settings(given))
    library = _find_library(args)
    args.paths = [Path(source) for source in args.sources]
    if library is not None:
        args.paths = [settings.data / LIBRARIES_FOLDER / library.name]
    if args.report is not None and not args.report.parent.is_dir():
        raise MultifoldError(f"there is no folder {args.report.parent} for the report: make it first")
    request = IngestRequest(**{field.name: getattr(args, field.name) for field in fields(IngestRequest)})
    if library is None:
        _check_request(request, watch=args.watch)
    encoder = open_drawing_encoder(settings.bundle, settings.threads or 1)

    def ingest() -> int:
        unread = []
        if library is not None:
            unread = mirror_library(library, args.paths[0], allow_empty=args.allow_empty)
        report = run_ingest(request, settings, encoder)
        report.skipped[:0] = unread
        return _print_report(report, args.report, dry=args.dry_run)

    if not args.watch:
        return ingest()
    folder = args.paths[0]
    watch = FolderWatch(folder, own_folders(settings), args.every)
    state = watch.state()
    ingest()
    print(f"watching {folder}; stop with Ctrl-C", flush=True)
    while True:
        watch.wait_for_change(state)
        state = watch.settled()
        while not _succeeds(ingest):
            time.sleep(args.every)


def _find_library(args: argparse.Namespace) -> Library | None:
    """The library that is to be read; None: paths are."""
    limits = LibraryLimits(args.library_items, args.library_bytes, args.library_total)
    found = [library for source in args.sources if (library := open_library(source, limits)) is not None]
    if not found:
        return None
    if len(args.sources) > 1:
        raise MultifoldError("a library takes a run of its own")
    if args.watch or args.dry_run or args.split:
        raise MultifoldError("--watch, --dry-run and --split are for files; start the run again now and then")
    return found[0]


def _succeeds(ingest: Callable[[], int]) -> bool:
    try:
        ingest()
    except MultifoldError as error:
        print(f"failed, will retry: {error}", file=sys.stderr, flush=True)
        return False
    return True


def _check_request(request: IngestRequest, *, watch: bool) -> None:
    for path in request.paths:
        if not path.exists():
            kind = "manifest" if path.suffix.lower() in manifest.SUFFIXES else "file or folder"
            raise MultifoldError(f"there is no {kind} {path}")
    lists = [path for path in request.paths if path.is_dir() or path.suffix.lower() in manifest.SUFFIXES]
    if len(request.paths) > 1 and lists:
        raise MultifoldError("give one folder, one manifest, or files; each folder takes a run of its own")
    if watch and not request.paths[0].is_dir():
        raise MultifoldError("--watch follows a folder")
    if request.split and not request.is_manifest:
        raise MultifoldError("--split chooses among the items of a manifest")


def _print_report(report: IngestReport, path: Path | None, *, dry: bool = False) -> int:
    print(("would be: " if dry else "") + report.counts(), flush=True)
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
