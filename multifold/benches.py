"""Measure this machine, or what Multifold promises: `multifold bench NAME`.

    multifold bench service --help
    multifold bench render

Each benchmark prints what it measures; docs/benchmarks has our own results. They are in a clone of the
repository only.
"""

import argparse
import importlib.util
from importlib.metadata import entry_points

from multifold.cli import run_command, summary_of
from multifold.errors import MultifoldError

GROUP = "multifold.benches"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    points = sorted(entry_points(group=GROUP))
    width = max((len(point.name) for point in points), default=0)
    parser.epilog = "\n".join(
        ["benchmarks:", *(f"  {point.name:{width}}  {summary_of(point)}" for point in points)]
    )
    parser.add_argument("name", metavar="NAME", help="a benchmark, see below")
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="…", help="its options; NAME --help lists them"
    )


def run(args: argparse.Namespace) -> int:
    if importlib.util.find_spec("benches") is None:
        raise MultifoldError("Benchmarks are in a clone of the Multifold repository only; run this there.")
    benches = {point.name: point for point in sorted(entry_points(group=GROUP))}
    return run_command(benches, [args.name, *args.words], kind="benchmark", prefix="multifold bench")
