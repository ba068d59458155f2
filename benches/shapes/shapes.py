"""How a shape is known best: by the mean of its views, by points, or by both.

    multifold bench shapes --seeds 0 1 2 3 4 --data FOLDER

Worlds: furniture as it is; grey furniture, whose captions name no colour, pattern or material; the real
models of a folder of game kits (--data), where each seed asks for a kit that it has not learned. Each way has
the same processor time for all of its stages. All learn the same items and are asked for the same held-out
ones: by text, by a picture, and by a copy that is turned about the vertical and rescaled, or meshed anew.
Texts look for these copies, too. How many steps the time allows is measured once and kept in --out. Runs that
are already there are not made again. The intervals draw items, and compare run by run.

Set before the reported run: the default options. Sizes, rates and shares of time were chosen on 800 grey
pieces of seed 1, with the training seeds 100 and 101. Goals: on grey furniture, views + points find at
least 5 more than views; no interval of the sum over its better leg is below zero.
"""

import argparse
from pathlib import Path

from multifold.errors import needs_extra

WORLDS = ("coloured", "grey", "kits")
WAYS = ("views", "points", "views + points")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4], help="of the trainings")
    parser.add_argument("--items", type=int, default=1200, help="pieces of furniture; a fifth is held out")
    parser.add_argument("--pieces", type=int, default=0, help="seed of the furniture")
    parser.add_argument("--data", type=Path, help="folder of game kits, for the world `kits`")
    parser.add_argument("--seconds", type=float, default=40.0, help="processor time of each training")
    parser.add_argument("--steps", action="store_true", help="only measure how many steps the ways have")
    parser.add_argument("--out", type=Path, default=Path("runs/shapes"), help="folder of the results")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="furniture, views and points")
    parser.add_argument("--table", action="store_true", help="print what is there, and run nothing")


def run(args: argparse.Namespace) -> int:
    with needs_extra("train"):
        from benches.shapes import runs
    return runs.run(args)
