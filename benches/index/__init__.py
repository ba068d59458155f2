"""Race our index against bare FAISS and hnswlib, at equal recall.

    multifold bench race --rows 20000 --dim 128

Each racer has a process and a thread of its own. Those that are not installed are named and left out;
Multifold does not need them. Rows lie in clusters, and queries apart from them, as those of another side
do; or the rows are the views in shards of features, and captions ask. The width of a search is the least
that reaches the recall on queries that are not reported, chosen for each filter. A filter is a number below
a bound; each row has one of 0 to 999. In the end a tenth of the rows is replaced. Times are wall time of
one query after the other; "CPU" is what all threads of the process took, which other work on the machine
changes less.
"""

import argparse
from pathlib import Path

from index.commands.options import add_bundle

WORK = "benches.index.race"
SCENES = ("clusters", "uneven", "surface", "noise")
RACERS = ("index", "codes", "collection", "faiss", "hnswlib")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--queries", type=int, default=256)
    parser.add_argument("--scene", choices=SCENES, default="clusters", help="how generated rows lie")
    parser.add_argument("--features", type=Path, help="shards whose views are searched by their captions")
    add_bundle(parser)
    parser.add_argument("--only", nargs="+", choices=RACERS, default=RACERS)
