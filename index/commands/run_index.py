"""The work of `multifold index`."""

import argparse

from index.commands.add_remove import add, remove
from index.commands.import_build import build, import_
from index.commands.inspect_collection import print_stats, verify
from index.commands.maintain import compact, migrate, restore, snapshot
from index.contracts import CollectionLocation
from index.registry import locate_collection

ACTIONS = {
    "stats": print_stats,
    "verify": verify,
    "compact": compact,
    "snapshot": snapshot,
    "restore": restore,
    "migrate": migrate,
    "add": add,
    "remove": remove,
    "import": import_,
    "build": build,
}


def run(args: argparse.Namespace) -> int:
    database, bucket = args.database or None, args.bucket or None
    args.database = database
    args.bucket = bucket
    here = CollectionLocation(args.data, database, bucket)
    if args.action == "migrate":  # the database and the bucket are its target
        here = CollectionLocation(args.data, None, None)
    args.place = locate_collection(here, args.collection)
    return ACTIONS[args.action](args)
