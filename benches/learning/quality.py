"""Every geometry in every direction: the small model is trained with each on a manifest, then measured.

    multifold bench quality furniture/manifest.jsonl --label kind --out runs/quality/furniture

Recipe and geometries are those of the ablation. What is done for each is `multifold train`, then
`multifold eval` of the items of the split `test`; checkpoint and report lie in a folder of its own, and are
not made again.
"""

import argparse
from pathlib import Path

from benches.learning.ablation import studies
from multifold.errors import needs_extra

GEOMETRIES = "geometries"  # the study


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("manifest", type=Path)
    parser.add_argument(
        "--geometries",
        nargs="+",
        choices=[*studies()[GEOMETRIES]],
        default=[*studies()[GEOMETRIES]],
        metavar="NAME",
    )
    parser.add_argument("--protocol", default="own", help="as of `multifold eval`; %(default)s")
    parser.add_argument("--label", metavar="KEY", help="classify by this key of the metadata, and probe")
    parser.add_argument("--items", type=int, help="only the first so many of the split test")
    parser.add_argument("--steps", type=int, help="instead of the recipe's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/quality"), help="a folder for each geometry")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")
    parser.add_argument("--table", action="store_true", help="print what is there, and run nothing")


def run(args: argparse.Namespace) -> int:
    with needs_extra("train"):
        from benches.learning import quality_runs
    return quality_runs.run(args)
