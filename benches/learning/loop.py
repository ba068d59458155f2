"""What the training loop costs beside a bare loop over tensors that lie in memory.

    multifold bench loop

The bare loop goes over eight batches: forward, loss, backward, step. Ours draws batches, moves views, clips,
checks, follows the teacher and writes its journal. Both have the same recipe's model and batches of noise.
They take turns, some steps each, in one process, and are measured in processor time.
"""

import argparse

from multifold.errors import needs_extra


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=6, help="turns of each, default: %(default)s")
    parser.add_argument("--steps", type=int, default=3, help="a turn, default: %(default)s")


def run(args: argparse.Namespace) -> int:
    with needs_extra("train"):
        from benches.learning import loop_times
    return loop_times.run(args)
