"""`multifold index compact`, `snapshot`, `restore` and `migrate`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from index.commands.common import BUCKET, add_bucket, format_size, refuse_busy, store_of
from index.maintenance.compact import KEPT_CHANGES, compact_collection
from index.maintenance.restore import restore_snapshot
from index.maintenance.snapshot import named_blob_keys, take_snapshot
from index.store.blobs import move_blobs
from index.store.copying import copy_store
from index.store.folder_locks import WriterLock
from index.store.store import Store, open_blobs
from multifold.bundle import bundle as bundles
from multifold.errors import MultifoldError

SHOWN = 20
DATABASE = "MULTIFOLD_DATABASE"


def compact(args: argparse.Namespace) -> int:
    """Let go of an old log, of pictures that no item names, and of empty space."""
    refuse_busy(args.data)
    done = compact_collection(args.data, args.keep_changes, args.bucket)
    print(
        f"{done.changes} changes and {done.blobs} pictures removed, {format_size(max(0, done.bytes))} freed"
    )
    return 0


def snapshot(args: argparse.Namespace) -> int:
    """Write the collection to one file, whatever is written to it meanwhile."""
    store = Store(store_of(args.data), None, read_only=True)
    try:
        print(f"taking a snapshot of {args.data}", flush=True)
        with tqdm(unit="B", unit_scale=True, desc="pictures", disable=None) as bar:
            blobs = open_blobs(args.data, args.bucket)
            pictures = not args.no_pictures
            report = take_snapshot(store, blobs, args.file, pictures=pictures, on_progress=bar.update)
    finally:
        store.close()
    contents = f"{report.contents.items} items, {report.blobs} pictures, {format_size(report.size)}"
    print(f"{args.file}: version {report.contents.version}, {contents}")
    return _print_absent(report.absent)


def migrate(args: argparse.Namespace) -> int:
    """Copy items into an empty PostgreSQL database, pictures into a bucket, or both."""
    database = args.database or os.environ.get(DATABASE)
    bucket = args.target or os.environ.get(BUCKET)
    if database is None and bucket is None:
        raise MultifoldError(
            f"Where to? Give --database postgresql://… or --bucket s3://…, or set {DATABASE} or {BUCKET}."
        )
    store_of(args.data)
    lock = WriterLock(args.data, f"multifold index migrate, process {os.getpid()}")
    try:
        store = Store(args.data / "store.sqlite", None)
        try:
            print(f"copying {args.data}", flush=True)
            absent = [] if bucket is None else _move_pictures(args.data, store, bucket)
            if database is not None:
                with tqdm(unit="row", desc="rows", disable=None) as bar:
                    version = copy_store(store, database, bar.update)
                print(f"the database holds version {version}")
        finally:
            store.close()
    finally:
        lock.release()
    return _print_absent(absent)


def _move_pictures(home: Path, store: Store, bucket: str) -> list[str]:
    with store.moment() as now:
        keys = named_blob_keys(now)
    with tqdm(total=len(keys), unit="picture", desc="pictures", disable=None) as bar:
        absent = move_blobs(keys, open_blobs(home, None), open_blobs(home, bucket), bar.update)
    print(f"{bucket} holds {len(keys) - len(absent)} pictures")
    return absent


def _print_absent(keys: Sequence[str]) -> int:
    """The exit status: 1 if any picture is absent."""
    for key in keys[:SHOWN]:
        print(f"  the picture {key} is missing or damaged, and not in it", file=sys.stderr)
    if len(keys) > SHOWN:
        print(f"  … and {len(keys) - SHOWN} more", file=sys.stderr)
    return 1 if keys else 0


def restore(args: argparse.Namespace) -> int:
    """Make a new collection of a snapshot, checking all of it first."""
    wanted = None if args.bundle is None else bundles.load(args.bundle).vector_id
    print(f"restoring {args.file}", flush=True)
    with tqdm(unit="B", unit_scale=True, desc="pictures", disable=None) as bar:
        contents = restore_snapshot(args.file, args.data, vector_id=wanted, on_progress=bar.update)
    print(f"{args.data}: {contents.items} items of {contents.vector_id}, version {contents.version}")
    return 0


def _compact_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep-changes",
        type=int,
        default=KEPT_CHANGES,
        help=f"changes to keep in the log (default {KEPT_CHANGES})",
    )
    add_bucket(parser)


def _snapshot_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="the file to write; it must not be there yet")
    parser.add_argument("--no-pictures", action="store_true", help="items and features only")
    add_bucket(parser)


def _migrate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--database", help=f"postgresql://USER@HOST/NAME (default: ${DATABASE})")
    parser.add_argument("--bucket", dest="target", help=f"s3://NAME/PREFIX (default: ${BUCKET})")


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a snapshot")
    parser.add_argument("--bundle", type=Path, help="refuse the snapshot if it is of another encoder")


ACTIONS = {
    "compact": (compact, _compact_arguments),
    "snapshot": (snapshot, _snapshot_arguments),
    "restore": (restore, _restore_arguments),
    "migrate": (migrate, _migrate_arguments),
}
