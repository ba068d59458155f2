"""What an ingest of files of all kinds costs, some of them broken.

    multifold bench ingest --files 10000

The files are made here, and the report must be right to the file. Then come the stages, each alone, over a
sample, and searches of a service while files go in through it.
"""

import argparse
from pathlib import Path

from multifold.machine import cores

WORK = "benches.ingest.ingest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", type=Path, default=Path("bundles/furniture"))
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--broken", type=float, default=0.05, help="share of the items that cannot be read")
    parser.add_argument("--sample", type=int, default=800, help="items that each stage alone is timed with")
    parser.add_argument("--beside", type=int, default=400, help="files taken in beside a running service")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=cores(), help="processes that render")
