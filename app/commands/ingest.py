"""Put a folder, a manifest or single files into a collection: meshes are rendered, everything is encoded.

A second run touches only what changed: files that moved keep their item, items of files that are gone go
too. A run that was cut short goes on where it was when it is started again. While a service has the
collection, all of it goes through that service, which answers searches meanwhile.
"""

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
from app.settings import read_settings
from index.registry import MAIN
from multifold import manifest
from multifold.errors import MultifoldError
from multifold.machine import cores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", type=Path, nargs="+", metavar="PATH", help="a folder, a manifest (.jsonl), or files")
    add("--data", type=Path, help="folder of the collections (default: data)")
    add("--bundle", type=Path, help="folder of the encoder (default: bundles/furniture)")
    add("--config", type=Path, help="TOML file of settings, as `multifold serve` takes it")
    add("--collection", default=MAIN, help="one of those in that folder; a new name makes a new one")
    add("--split", help="of a manifest: only the items of this split")
    units = ("file", "folder")
    add("--item", dest="unit", choices=units, default="file", help="what one item is; default: %(default)s")
    add("--no-names", dest="names", action="store_false", help="file names are no captions")
    texts = "nor is what glTF files say of themselves"
    add("--no-metadata", dest="metadata", action="store_false", help=texts)
    add("--allow-empty", action="store_true", help="delete all, if the folder is empty now")
    add("--copy", action="store_true", help="copy photos and meshes, instead of reading them where they lie")
    add("--dry-run", action="store_true", help="only say what would happen")
    add("--report", type=Path, metavar="FILE", help="write the whole report as JSON")
    add("--watch", action="store_true", help="stay, and follow changes of the folder")
    add("--every", type=float, default=2.0, help="with --watch: seconds between looks")
    add("--workers", type=int, default=cores(), help="processes that render")


def run(args: argparse.Namespace) -> int:
    given = {"data": args.data, "bundle": args.bundle, "config": args.config}
    settings = with_recorded_bundle(read_settings(given))
    request = IngestRequest(**{field.name: getattr(args, field.name) for field in fields(IngestRequest)})
    _check_request(request, watch=args.watch)
    encoder = open_drawing_encoder(settings.bundle, settings.threads or 1)

    def ingest() -> int:
        return _print_report(run_ingest(request, settings, encoder), args.report, dry=args.dry_run)

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


def _succeeds(ingest: Callable[[], int]) -> bool:
    """Run an ingest; its error is printed."""
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
