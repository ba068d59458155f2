"""Measure training: the loop beside a bare one, recipes on a device, the losses, and what captions are worth.

    multifold bench training
    multifold bench training --parts steps --devices cuda cpu
    multifold bench training --parts captions --data data/dev --out runs/captions

The bare loop goes over eight batches that lie in memory: forward, loss, backward, step. Ours draws batches,
moves views, clips, checks, follows the teacher and writes its log. Both have the same model and batches of
noise; they take turns, and are measured in processor time of one thread, as the losses are. Steps of
recipes on a device are timed by the clock, with all cores, without pretrained weights. Memory of a loss is
the peak of a process of its own, less what it had before. The part captions trains: half an hour of one core.
"""

import argparse
from pathlib import Path

WORK = "benches.training.training"
PARTS = ("captions", "loop", "losses", "steps")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["loop", "losses"])
    parser.add_argument("--recipes", nargs="+", default=["folder-small", "demo", "ablation"])
    parser.add_argument("--rounds", type=int, default=6, help="turns of each loop and loss; %(default)s")
    parser.add_argument("--steps", type=int, default=4, help="of a turn, or on a device; %(default)s")
    parser.add_argument("--data", type=Path, help="of captions: a folder with items.jsonl")
    parser.add_argument("--out", type=Path, default=Path("runs/captions"), help="of captions: its results")
    parser.add_argument("--seconds", type=float, default=20, help="of captions: of a run; %(default)s")
    parser.add_argument("--devices", nargs="+", default=["cpu"], help="of the part steps: cpu, cuda")
