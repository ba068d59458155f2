"""Encode a manifest's items in bulk, into shards that `multifold index import` reads.

    multifold encode things.jsonl bundles/things features/

A stopped run continues where it was. A broken item is reported and left out.
"""

import argparse
from pathlib import Path

from multifold.cli import at_least_one
from multifold.machine import cores

WORK = "training.commands.run_features"
ITEMS_AT_ONCE = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("manifest", type=Path)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("out", type=Path, help="folder of the shards")
    parser.add_argument("--items", type=int, default=ITEMS_AT_ONCE, help="a shard, default: %(default)s")
    parser.add_argument(
        "--workers", type=at_least_one, default=cores(), help="processes, default: %(default)s"
    )
