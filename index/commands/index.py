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
from pathlib import Path

from index.commands import add_remove, import_build, inspect_collection, maintain
from index.commands.common import BUCKET, DATABASE
from index.contracts import CollectionLocation
from index.names import MAIN
from index.registry import locate_collection

PARTS = (inspect_collection, maintain, add_remove, import_build)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, and to which collection."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for part in PARTS:
        for name, (run_it, arguments) in part.ACTIONS.items():
            about = (run_it.__doc__ or "").split("\n")[0]
            action = actions.add_parser(name, help=about, description=about)
            action.add_argument("--data", type=Path, default=Path("data"), help="folder of the collection")
            action.add_argument("--collection", default=MAIN, help="one of those beside it, by name or alias")
            bucket = f"s3://NAME/PREFIX of the pictures, if they are not in the folder (default: ${BUCKET})"
            action.add_argument("--bucket", default=os.environ.get(BUCKET), help=bucket)
            database = f"postgresql://USER@HOST/NAME of the items, likewise (default: ${DATABASE})"
            action.add_argument("--database", default=os.environ.get(DATABASE), help=database)
            arguments(action)
            action.set_defaults(run_it=run_it)


def run(args: argparse.Namespace) -> int:
    """Do it."""
    args.database, args.bucket = args.database or None, args.bucket or None
    stores = (None, None) if args.action == "migrate" else (args.database, args.bucket)  # for it, the target
    args.place = locate_collection(CollectionLocation(args.data, *stores), args.collection)
    status: int = args.run_it(args)
    return status
