"""`multifold index compact`, `snapshot`, `restore` and `migrate`."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

from index.commands.common import format_size, progress_bar, read_store
from index.commands.options import BUCKET, DATABASE
from index.contracts import CollectionLocation
from index.maintenance.compact import compact_collection
from index.maintenance.restore import restore_snapshot
from index.maintenance.snapshot import named_blob_keys, take_snapshot
from index.store.blobs import move_blobs
from index.store.copying import copy_store
from index.store.folder_locks import WriterLock
from index.store.store import Store, open_blobs, refuse_missing
from multifold.bundle import bundle as bundles
from multifold.durable import make_folder
from multifold.errors import MultifoldError

SHOWN_PROBLEMS = 20


def compact(args: argparse.Namespace) -> int:
    """Remove old log entries, pictures that no item names, and empty space."""
    done = compact_collection(args.place, args.keep_changes)
    freed = format_size(max(0, done.bytes))
    print(f"{done.changes} changes and {done.blobs} pictures removed, {freed} freed")
    if args.place.database:
        print("pictures of a shared store stay: another process may be about to name one")
    return 0


def snapshot(args: argparse.Namespace) -> int:
    """Write the collection to one file; writes may go on meanwhile."""
    blobs = open_blobs(args.place.folder, args.place.bucket)
    with read_store(args.place) as store, progress_bar(unit="B", unit_scale=True, desc="pictures") as bar:
        store.check_pictures(args.place.folder, args.place.bucket, writes=False)
        print(f"taking a snapshot of {args.place.shown}", flush=True)
        pictures = not args.no_pictures
        report = take_snapshot(store, blobs, args.file, pictures=pictures, on_progress=bar.update)
    contents = f"{report.contents.items} items, {report.blobs} pictures, {format_size(report.size)}"
    print(f"{args.file}: version {report.contents.version}, {contents}")
    return _print_absent(report.absent)


def migrate(args: argparse.Namespace) -> int:
    """Copy items to an empty PostgreSQL database, pictures to a bucket, or both."""
    if args.database is None and args.bucket is None:
        raise MultifoldError(
            f"Where to? Give --database postgresql://… or --bucket s3://…, or set {DATABASE} or {BUCKET}."
        )
    home = args.place.folder
    refuse_missing(home / "store.sqlite")
    with ExitStack() as stack:
        stack.callback(WriterLock(home, f"multifold index migrate, process {os.getpid()}").release)
        print(f"copying {home}", flush=True)
        return _print_absent(_copy(home, CollectionLocation(home, args.database, args.bucket)))


def _copy(home: Path, target: CollectionLocation) -> list[str]:
    """Copy what is kept elsewhere from a folder to there; returns the pictures that are absent."""
    absent: list[str] = []
    with closing(Store(home / "store.sqlite", None)) as store:
        if target.bucket is not None or target.folder != home:
            with store.moment() as now:
                keys = named_blob_keys(now)
            pictures = open_blobs(target.folder, target.bucket)
            with progress_bar(total=len(keys), unit="picture", desc="pictures") as bar:
                absent = move_blobs(keys, open_blobs(home, None), pictures, bar.update)
            print(f"{target.bucket or target.folder} holds {len(keys) - len(absent)} pictures")
        if target.database is not None:
            with progress_bar(unit="row", desc="rows") as bar:
                version = copy_store(store, target.database, bar.update)
            print(f"the database holds version {version}")
    return absent


def _print_absent(keys: Sequence[str]) -> int:
    """The exit status: 1 if any picture is absent."""
    for key in keys[:SHOWN_PROBLEMS]:
        print(f"  the picture {key} is missing or damaged, and not in it", file=sys.stderr)
    if len(keys) > SHOWN_PROBLEMS:
        print(f"  … and {len(keys) - SHOWN_PROBLEMS} more", file=sys.stderr)
    return 1 if keys else 0


def restore(args: argparse.Namespace) -> int:
    """Make a new collection of a snapshot, checking all of it first."""
    place = args.place
    wanted = None if args.bundle is None else bundles.load(args.bundle).vector_id
    print(f"restoring {args.file}", flush=True)
    with ExitStack() as stack:
        folder = place.folder
        if place.database:  # by way of a folder that is gone afterwards
            make_folder(folder)
            folder = Path(stack.enter_context(TemporaryDirectory(dir=folder, prefix=".restored"))) / "all"
        bar = stack.enter_context(progress_bar(unit="B", unit_scale=True, desc="pictures"))
        contents = restore_snapshot(args.file, folder, vector_id=wanted, on_progress=bar.update)
        if place.database or place.bucket:
            _copy(folder, place)
    print(f"{place.shown}: {contents.items} items of {contents.vector_id}, version {contents.version}")
    return 0
