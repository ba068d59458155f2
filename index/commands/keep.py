"""Keeping a collection: small, and safe elsewhere."""

import argparse
import os
import sys
from pathlib import Path

from tqdm import tqdm

from index.blobs import Blobs
from index.commands.opening import myself, refuse_busy, size, store_of
from index.compact import KEPT
from index.compact import compact as tidy
from index.lock import WriterLock
from index.restore import restore as bring_back
from index.snapshot import snapshot as take
from index.store import Store
from multifold import bundle as bundles
from multifold.errors import MultifoldError

SHOWN = 20
DATABASE = "MULTIFOLD_DATABASE"


def compact(args: argparse.Namespace) -> int:
    """Let go of an old log, of pictures that no item names, and of empty space."""
    refuse_busy(args.data)
    done = tidy(args.data, args.keep_changes)
    print(f"{done.changes} changes and {done.blobs} pictures removed, {size(max(0, done.bytes))} freed")
    return 0


def snapshot(args: argparse.Namespace) -> int:
    """Write the collection to one file, whatever is written to it meanwhile."""
    store = Store(store_of(args.data), None, read_only=True)
    try:
        print(f"taking a snapshot of {args.data}", flush=True)
        with tqdm(unit="B", unit_scale=True, desc="pictures", disable=None) as bar:
            blobs = Blobs(args.data / "blobs")
            taken = take(store, blobs, args.file, pictures=not args.no_pictures, told=bar.update)
    finally:
        store.close()
    held = f"{taken.contents.items} items, {taken.blobs} pictures, {size(taken.size)}"
    print(f"{args.file}: version {taken.contents.version}, {held}")
    for key in taken.absent[:SHOWN]:
        print(f"  the picture {key} is missing or damaged, and not in it", file=sys.stderr)
    if len(taken.absent) > SHOWN:
        print(f"  … and {len(taken.absent) - SHOWN} more", file=sys.stderr)
    return 1 if taken.absent else 0


def migrate(args: argparse.Namespace) -> int:
    """Copy the items of a collection into an empty PostgreSQL database; its pictures stay in the folder."""
    url = args.database or os.environ.get(DATABASE)
    if url is None:
        raise MultifoldError(f"Where to? Give --database postgresql://…, or set {DATABASE}.")
    store_of(args.data)
    lock = WriterLock(args.data, myself("migrate"))
    try:
        store = Store(args.data / "store.sqlite", None)
        try:
            print(f"copying {args.data}", flush=True)
            with tqdm(unit="row", desc="rows", disable=None) as bar:
                version = store.move(url, bar.update)
        finally:
            store.close()
    finally:
        lock.release()
    print(f"the database holds version {version}; open it with this folder, for its pictures")
    return 0


def restore(args: argparse.Namespace) -> int:
    """Make a new collection of a snapshot, checking all of it first."""
    wanted = None if args.bundle is None else bundles.load(args.bundle).vector_id
    print(f"restoring {args.file}", flush=True)
    with tqdm(unit="B", unit_scale=True, desc="pictures", disable=None) as bar:
        contents = bring_back(args.file, args.data, vector_id=wanted, told=bar.update)
    print(f"{args.data}: {contents.items} items of {contents.vector_id}, version {contents.version}")
    return 0


def _compact_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep-changes", type=int, default=KEPT, help=f"changes to keep in the log (default {KEPT})"
    )


def _snapshot_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="the file to write; it must not be there yet")
    parser.add_argument("--no-pictures", action="store_true", help="items and features only")


def _migrate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--database", help=f"postgresql://USER@HOST/NAME (default: ${DATABASE})")


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a snapshot")
    parser.add_argument("--bundle", type=Path, help="refuse the snapshot if it is of another encoder")


ACTIONS = {
    "compact": (compact, _compact_arguments),
    "snapshot": (snapshot, _snapshot_arguments),
    "restore": (restore, _restore_arguments),
    "migrate": (migrate, _migrate_arguments),
}
