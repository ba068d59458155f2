"""Kill a writing process repeatedly, and check that nothing that it acknowledged is lost.

Change number n is the same in every process, so the state after it is known. After each kill the collection
must be in the state of the last acknowledged change, or of the next one, whole.
"""

import argparse

WORK = "benches.durability.durability"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
