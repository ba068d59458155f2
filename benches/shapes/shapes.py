"""How a shape is known best: by the mean of its views, by views read together, by points, or by both.

    multifold bench shapes --seeds 0 1 2 --items 1500 --seconds 60

Worlds: furniture as it is, and grey furniture, whose captions name no colour, pattern or material. Each way
is trained for the same processor time on the same items, and asked for the same held-out pieces: by text, and
by a copy that is turned about the vertical and rescaled. Texts also look for these copies. Runs that are
already in --out are not made again. The intervals draw items, and compare run by run.
"""

import argparse
from pathlib import Path

from multifold.errors import needs_extra

WORLDS = ("coloured", "grey")
WAYS = ("views, mean", "views, set encoder", "views, last block", "points", "views + points")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4], help="of the trainings")
    parser.add_argument("--items", type=int, default=1500, help="pieces of furniture; a fifth is held out")
    parser.add_argument("--seconds", type=float, default=60.0, help="processor time of each training")
    parser.add_argument("--out", type=Path, default=Path("runs/shapes"), help="folder of the results")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="furniture, views and points")
    parser.add_argument("--table", action="store_true", help="print what is there, and run nothing")


def run(args: argparse.Namespace) -> int:
    with needs_extra("train"):
        from benches.shapes import runs
    return runs.run(args)
