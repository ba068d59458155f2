"""Losses and geometries against each other, on the furniture set or on your own items.

    multifold bench ablation --study losses --seeds 0 1 2
    multifold bench ablation --study captions --manifest flickr8k.jsonl --out runs/flickr8k

Every run trains the small model of training/recipes/ablation.toml with the changes that ablation.toml beside
this file names, and is tested on the same unseen items. The studies `captions` and `towers` have files of
their own: their runs take the same processor time, and the val split chooses rates and weights. Runs that are
in --out are not made again. Intervals draw both seeds and items; the time is CPU time, of training alone.
"""

import argparse
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multifold.errors import needs_extra

STUDIES = Path(__file__).with_name("ablation.toml")
TIMED = ("captions", "towers")  # studies at equal processor time, each with a file of its own


def studies() -> dict[str, dict[str, dict[str, Any]]]:
    """Study -> name of a run -> its changes to the recipe."""
    timed = {
        study: {name: recipe_sections(run) for name, run in timed_study(study)["runs"].items()}
        for study in TIMED
    }
    return {**tomllib.loads(STUDIES.read_text(encoding="utf-8")), **timed}


def recipe_sections(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run of a study at equal time without what is said of the run itself."""
    return {key: value for key, value in run.items() if key not in ("choose", "like", "seconds")}


def timed_study(name: str) -> dict[str, Any]:
    """A study at equal processor time: its protocol, what may be chosen, and its runs."""
    return tomllib.loads(timed_file(name).read_text(encoding="utf-8"))


def timed_file(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.toml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--study", nargs="+", choices=sorted(studies()), default=sorted(studies()))
    parser.add_argument("--runs", nargs="+", metavar="RUN", help="only these of the studies' runs")
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=int,
        help="default: 0 1 2; of studies at equal time those of their protocol",
    )
    parser.add_argument("--steps", type=int, help="instead of the recipe's")
    parser.add_argument("--out", type=Path, default=Path("runs/ablation"), help="folder of the results")
    parser.add_argument(
        "--sets",
        nargs="+",
        type=int,
        action="append",
        help="furniture sets to ask about together, by seed, default: 0; given again: another gallery",
    )
    parser.add_argument(
        "--manifest", type=Path, help="at equal time: items with splits, in place of furniture"
    )
    parser.add_argument("--recipe", help="at equal time: the towers, in place of the protocol's")
    parser.add_argument("--seconds", type=float, help="at equal time: processor time of a run's training")
    parser.add_argument("--against", metavar="RUN", help="show each run's lead over this one, pair by pair")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")
    parser.add_argument("--table", action="store_true", help="print what is there, and run nothing")


def run(args: argparse.Namespace) -> int:
    with needs_extra("train"):
        from benches.learning import ablation_runs
    return ablation_runs.run(args)
