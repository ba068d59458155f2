"""Time and memory of the losses: by number of draws, batch and version.

    multifold bench losses

All of one table are measured in one run, in turn, so that they meet the same machine; a time is the median
processor time of forward and backward. Memory is the peak of a process of its own, less what it had before.
"""

import argparse

from multifold.errors import needs_extra


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=60, help="of each measurement of time")


def run(args: argparse.Namespace) -> int:
    with needs_extra("train"):
        from benches.learning import loss_times
    return loss_times.run(args)
