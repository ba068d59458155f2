"""Losses and geometries against each other on the furniture set.

    multifold bench ablation --study losses --seeds 0 1 2

Every run trains the small model of training/recipes/ablation.toml with the changes that ablation.toml beside
this file names, and is tested on the same unseen items. Runs that are already in --out are not made again.
The table's intervals draw both seeds and items; the time is CPU time, of training alone.
"""

import argparse
import tomllib
from pathlib import Path
from typing import Any

from multifold.errors import needs_extra

STUDIES = Path(__file__).with_name("ablation.toml")


def studies() -> dict[str, dict[str, dict[str, Any]]]:
    """Study -> name of a run -> its changes to the recipe."""
    return tomllib.loads(STUDIES.read_text(encoding="utf-8"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--study", nargs="+", choices=sorted(studies()), default=sorted(studies()))
    parser.add_argument("--runs", nargs="+", metavar="RUN", help="only these of the studies' runs")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="instead of the recipe's")
    parser.add_argument("--out", type=Path, default=Path("runs/ablation"), help="folder of the results")
    parser.add_argument(
        "--sets",
        nargs="+",
        type=int,
        action="append",
        help="furniture sets to ask about together, by seed, default: 0; given again: another gallery",
    )
    parser.add_argument("--against", metavar="RUN", help="show each run's lead over this one, pair by pair")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")
    parser.add_argument("--table", action="store_true", help="print what is there, and run nothing")


def run(args: argparse.Namespace) -> int:
    with needs_extra("train"):
        from benches.learning import ablation_runs
    return ablation_runs.run(args)
