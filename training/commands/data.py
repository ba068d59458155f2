"""Make or fetch a data set, as a manifest with its files.

Example: multifold data furniture --items 3000 --seed 0 furniture/
"""

import argparse
from collections import Counter
from pathlib import Path

from multifold.machine import cores
from training.data.furniture.dataset import Order, write
from training.data.furniture.workshop import CAPTIONS

DEFAULT_ITEMS = 3000
MOST_WORKERS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command a data set."""
    datasets = parser.add_subparsers(title="data sets", metavar="DATASET", required=True)
    _add_furniture(datasets.add_parser("furniture", help="procedural 3D furniture with true captions"))


def run(args: argparse.Namespace) -> int:
    """Run the data set's own function."""
    status: int = args.make(args)
    return status


def _add_furniture(parser: argparse.ArgumentParser) -> None:
    workers = min(MOST_WORKERS, cores())
    parser.add_argument("out", type=Path, metavar="OUT", help="a new or empty folder")
    parser.add_argument("--items", type=int, default=DEFAULT_ITEMS, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="default: %(default)s")
    parser.add_argument(
        "--captions", type=int, default=CAPTIONS, help="captions an item, default: %(default)s"
    )
    parser.add_argument("--workers", type=int, default=workers, help="processes, default: %(default)s")
    parser.add_argument("--allow-twins", action="store_true", help="let near-twins cross the splits")
    parser.set_defaults(make=_furniture)


def _furniture(args: argparse.Namespace) -> int:
    order = Order(args.out, args.seed, args.captions, args.allow_twins)
    print(f"making {args.items} pieces of furniture (seed {args.seed}) in {args.out}")
    entries = write(order, args.items, args.workers)
    splits = Counter(entry.split for entry in entries)
    shares = ", ".join(f"{splits[name]} {name}" for name in ("train", "val", "test"))
    print(f"wrote {args.out / 'manifest.jsonl'}: {shares}")
    return 0
