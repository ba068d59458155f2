"""The same work on a GPU and on all cores of its machine: indexes, encoders, training.

    multifold bench gpu

Times are of the clock, after a warm-up. Indexes have the same rows and are asked the same queries, at the
recall that is measured beside them. Encoders read noise, as fast as they read anything else. A recipe's
towers learn from noise, without pretrained weights. Without a GPU the columns of the CPU are what is left.
"""

import argparse
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from index.commands.common import add_bundle
from multifold.errors import needs_extra

PARTS = ("index", "encoder", "training")
RECIPES = ("demo", "folder-small", "mxm-shape-vit-b32", "finetune-flickr30k")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000], help="of an index")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--queries", type=int, default=1024)
    parser.add_argument("--types", nargs="+", help="of an index, each after its device: gpu:CAGRA cpu:auto")
    add_bundle(parser)
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="more bundles to encode with")
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES))
    parser.add_argument("--steps", type=int, default=20, help="of a training that are timed, on a GPU")
    parser.add_argument("--cpu-steps", type=int, default=1, help="the same on the CPU")


def run(args: argparse.Namespace) -> int:
    for part in args.parts:
        measure: Callable[[argparse.Namespace], Iterator[str]]
        with needs_extra("train"):
            measure = import_module(f"benches.gpu.{part}_on_gpu").measure
        print(f"\n## {part}\n")
        for line in measure(args):
            print(line, flush=True)
    return 0
