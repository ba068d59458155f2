"""Put a folder, a manifest or single files into a collection: meshes are rendered, everything is encoded.

A second run touches only what changed: files that moved keep their item, items of files that are gone go
too. A run that was cut short goes on where it was when it is started again. While a service has the
collection, all of it goes through that service, which answers searches meanwhile.
"""

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from app.encoding.encoders import with_recorded_bundle
from app.encoding.observations import open_drawing_encoder
from app.ingest.run import IngestError, IngestReport, IngestRequest, own_folders, run_ingest
from app.settings import read_settings
from index.registry import MAIN
from multifold import manifest
from multifold.errors import MultifoldError
from multifold.machine import cores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to ingest, and where to."""
    parser.add_argument(
        "what", type=Path, nargs="+", metavar="PATH", help="a folder, a manifest (.jsonl), or files"
    )
    parser.add_argument("--data", type=Path, help="folder of the collections (default: data)")
    parser.add_argument("--bundle", type=Path, help="folder of the encoder (default: bundles/furniture)")
    parser.add_argument("--config", type=Path, help="TOML file of settings, as `multifold serve` takes it")
    parser.add_argument(
        "--collection", default=MAIN, help="one of those in that folder; a new name makes a new one"
    )
    parser.add_argument("--split", help="of a manifest: only the items of this split")
    parser.add_argument(
        "--item", choices=("file", "folder"), default="file", help="what one item is; default: %(default)s"
    )
    parser.add_argument("--no-names", action="store_true", help="file names are no captions")
    parser.add_argument("--no-metadata", action="store_true", help="nor is what glTF files say of themselves")
    parser.add_argument("--allow-empty", action="store_true", help="delete all, if the folder is empty now")
    parser.add_argument(
        "--copy", action="store_true", help="copy photos and meshes, instead of reading them where they lie"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would happen")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the whole report as JSON")
    parser.add_argument("--watch", action="store_true", help="stay, and follow changes of the folder")
    parser.add_argument("--every", type=float, default=2.0, help="with --watch: seconds between looks")
    parser.add_argument("--workers", type=int, default=cores(), help="processes that render")


def run(args: argparse.Namespace) -> int:
    """Ingest, and print the report."""
    given = {name: getattr(args, name) for name in ("data", "bundle", "config")}
    settings = with_recorded_bundle(
        read_settings({name: value for name, value in given.items() if value is not None})
    )
    request = IngestRequest(
        args.what,
        args.collection,
        args.split,
        args.item,
        names=not args.no_names,
        metadata=not args.no_metadata,
        allow_empty=args.allow_empty,
        dry_run=args.dry_run,
        copy=args.copy,
        workers=args.workers,
    )
    _check_request(request, watch=args.watch)
    encoder = open_drawing_encoder(settings.bundle, settings.threads or 1)

    def ingest() -> int:
        return _print_report(run_ingest(request, settings, encoder), args.report, dry=args.dry_run)

    if not args.watch:
        return ingest()
    folder = args.what[0]
    changes = watch_folder(folder, args.every, own_folders(settings))
    next(changes)
    ingest()
    print(f"watching {folder}; stop with Ctrl-C", flush=True)
    for _ in changes:
        while not _try_run(ingest):
            time.sleep(args.every)
    return 0


def _try_run(ingest: Callable[[], int]) -> bool:
    """Whether a run succeeded; while watching, it is tried again until it does."""
    try:
        ingest()
    except MultifoldError as error:
        print(f"not taken in, and tried again: {error}", file=sys.stderr, flush=True)
        return False
    return True


def watch_folder(folder: Path, seconds: float, skip: frozenset[Path]) -> Iterator[None]:
    """Yields at once, and then after each change of the folder, once it has come to rest."""
    while True:
        before = hash_folder_state(folder, skip)
        yield
        while (now := hash_folder_state(folder, skip)) == before:
            time.sleep(seconds)
        settled = False
        while not settled:
            time.sleep(seconds)
            later = hash_folder_state(folder, skip)
            settled, now = later == now, later


def hash_folder_state(folder: Path, skip: frozenset[Path]) -> bytes:
    """Names, sizes and times of all files, as a hash."""
    digest = hashlib.sha256()
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and Path(parent, name).resolve() not in skip
        )
        for name in sorted(names):
            path = os.path.join(parent, name)
            try:
                status = os.stat(path)
            except OSError:
                continue
            digest.update(os.fsencode(path))
            digest.update(f" {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}\n".encode())
    return digest.digest()


def _check_request(request: IngestRequest, *, watch: bool) -> None:
    for path in request.paths:
        if not path.exists():
            kind = "manifest" if path.suffix.lower() in manifest.SUFFIXES else "file or folder"
            raise IngestError(f"there is no {kind} {path}")
    lists = [path for path in request.paths if path.is_dir() or path.suffix.lower() in manifest.SUFFIXES]
    if len(request.paths) > 1 and lists:
        raise IngestError("give one folder, one manifest, or files; each folder takes a run of its own")
    if watch and not request.paths[0].is_dir():
        raise IngestError("--watch follows a folder")
    if request.split and not request.is_manifest:
        raise IngestError("--split chooses among the items of a manifest")


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
