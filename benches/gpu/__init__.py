"""The same work on a GPU and on all cores of its machine: indexes and encoders.

    multifold bench gpu

Times are of the clock, after a warm-up. Indexes have the same rows and are asked the same queries, at the
recall that is measured beside them. Encoders read noise, as fast as they read anything else. Without a GPU
the columns of the CPU are what is left. Training on a GPU: `multifold bench training --parts steps`.
"""

import argparse
from pathlib import Path

from index.commands.options import add_bundle

WORK = "benches.gpu.gpu"
PARTS = ("index", "encoder")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000], help="of an index")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--queries", type=int, default=1024)
    parser.add_argument("--types", nargs="+", help="of an index, each after its device: gpu:CAGRA cpu:auto")
    add_bundle(parser)
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="more bundles to encode with")
