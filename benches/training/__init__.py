"""Measure training: the loop beside a bare one, recipes on a device, and the losses.

    multifold bench training
    multifold bench training --parts steps --devices cuda cpu

The bare loop goes over eight batches that lie in memory: forward, loss, backward, step. Ours draws batches,
moves views, clips, checks, follows the teacher and writes its log. Both have the same model and batches of
noise; they take turns, and are measured in processor time of one thread, as the losses are. Steps of
recipes on a device are timed by the clock, with all cores, without pretrained weights. Memory of a loss is
the peak of a process of its own, less what it had before.
"""

import argparse

WORK = "benches.training.training"
PARTS = ("loop", "losses", "steps")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["loop", "losses"])
    parser.add_argument("--recipes", nargs="+", default=["folder-small", "demo", "ablation"])
    parser.add_argument("--rounds", type=int, default=6, help="turns of each loop and loss; %(default)s")
    parser.add_argument("--steps", type=int, default=4, help="of a turn, or on a device; %(default)s")
    parser.add_argument("--devices", nargs="+", default=["cpu"], help="of the part steps: cpu, cuda")
