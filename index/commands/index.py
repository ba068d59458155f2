"""Look after a collection: look at it, check it, keep it, fill it.

    multifold index stats --data data/mine
    multifold index snapshot --data data/mine mine.tar
    multifold index restore mine.tar --data data/copy
    multifold index import vectors.npy --ids ids.txt --metric cosine --data data/own

One process writes to a collection. While a service does, `add` and `remove` are sent to it; the other
commands that change something name it and leave. Those that only look may run at any time.
"""

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

from index.commands.options import BUCKET, DATABASE, add_bundle
from index.contracts import AUTO, DEVICES, KEPT_CHANGES, MEMORIES, IndexPlan
from index.names import MAIN
from index.plain_space import PLAIN_METRICS
from multifold.types import Aspect

WORK = "index.commands.run_index"


def _stats_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    parser.add_argument("--no-index", action="store_true", help="only store and pictures: needs no encoder")


def _compact_arguments(parser: argparse.ArgumentParser) -> None:
    about = f"changes to keep in the log (default {KEPT_CHANGES})"
    parser.add_argument("--keep-changes", type=int, default=KEPT_CHANGES, help=about)


def _snapshot_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="the file to write; it must not be there yet")
    parser.add_argument("--no-pictures", action="store_true", help="items and features only")


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a snapshot")
    parser.add_argument("--bundle", type=Path, help="refuse the snapshot if it is of another encoder")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", help="the item's id")
    parser.add_argument("--text", action="append", default=[], help="a caption; may be given several times")
    parser.add_argument("--image", action="append", default=[], type=Path, help="a photo; likewise")
    parser.add_argument("--mesh", type=Path, help="its shape; only through a service")
    parser.add_argument("--payload", default="{}", help="a JSON object that is kept with it")
    add_bundle(parser)


def _remove_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID")
    add_bundle(parser)


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, help="a folder of shards, or a .npy or .parquet file")
    parser.add_argument("--ids", type=Path, help="for .npy: a text with an id a line, or JSONL")
    parser.add_argument("--side", choices=get_args(Aspect), default="image", help="what the rows are of")
    parser.add_argument("--manifest", type=Path, help="a manifest, whose `meta` becomes the payload")
    parser.add_argument("--metric", choices=PLAIN_METRICS, help="make a collection of plain embeddings")
    add_bundle(parser)


def _build_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--type", default=AUTO, help="auto, exact, or a FAISS factory string (docs/index.md)")
    parser.add_argument("--recall", type=float, default=IndexPlan().recall)
    parser.add_argument("--device", choices=DEVICES, default="auto")
    parser.add_argument("--memory", choices=MEMORIES, default="auto", help="codes: vectors stay in files")
    add_bundle(parser)


# What each action does, in a line, and its arguments.
ACTIONS: Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "stats": ("Tell what a collection holds, takes, and finds.", _stats_arguments),
    "verify": ("Check store, pictures and indexes; 1 if anything is wrong.", _verify_arguments),
    "compact": (
        "Remove old log entries, pictures that no item names, and empty space.",
        _compact_arguments,
    ),
    "snapshot": (
        "Write the collection to one file; writes may go on meanwhile.",
        _snapshot_arguments,
    ),
    "restore": ("Make a new collection of a snapshot, checking all of it first.", _restore_arguments),
    "migrate": (
        "Copy items to an empty PostgreSQL database, pictures to a bucket, or both.",
        lambda _: None,
    ),
    "add": ("Write one item; it replaces the one of that id.", _add_arguments),
    "remove": ("Remove items by their ids.", _remove_arguments),
    "import": ("Import features computed in bulk, or embeddings of your own.", _import_arguments),
    "build": (
        "Build the index to a type and a recall, which it keeps from then on.",
        _build_arguments,
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, and to which collection."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (about, arguments) in ACTIONS.items():
        action = actions.add_parser(name, help=about, description=about)
        action.add_argument("--data", type=Path, default=Path("data"), help="folder of the collection")
        action.add_argument("--collection", default=MAIN, help="one of those beside it, by name or alias")
        bucket = f"s3://NAME/PREFIX of the pictures, if they are not in the folder (default: ${BUCKET})"
        action.add_argument("--bucket", default=os.environ.get(BUCKET), help=bucket)
        database = f"postgresql://USER@HOST/NAME of the items, likewise (default: ${DATABASE})"
        action.add_argument("--database", default=os.environ.get(DATABASE), help=database)
        arguments(action)
