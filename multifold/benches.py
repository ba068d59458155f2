"""Measure this machine: `multifold bench NAME`.

A benchmark is a module with a docstring, add_arguments(parser) and run(args) -> int, found by entry point.
"""

import argparse
import importlib.util
from importlib.metadata import entry_points

from multifold.cli import run_command
from multifold.errors import MultifoldError

GROUP = "multifold.benches"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = sorted(point.name for point in entry_points(group=GROUP))
    parser.add_argument("name", metavar="NAME", help=f"one of: {', '.join(names)}")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="…", help="what it takes; -h says")


def run(args: argparse.Namespace) -> int:
    if importlib.util.find_spec("benches") is None:
        raise MultifoldError("Benchmarks are in a clone of the Multifold repository only; run this there.")
    benches = {point.name: point for point in sorted(entry_points(group=GROUP))}
    return run_command(benches, [args.name, *args.words], kind="benchmark", prefix="multifold bench")
