"""Train an encoder by a recipe.

    multifold train demo --out runs/demo
    multifold train my.toml --set train.rate=1e-4 loss.name=mfh
    multifold train own --manifest things.jsonl
    multifold train --show demo
    multifold train --list
    multifold train demo --out runs/demo --resume
    torchrun --nproc-per-node 2 -m multifold train demo --out runs/demo

Under torchrun the processes share each batch, and the run is that of one process with the same batch.
Rendered views and generated sets are kept in --cache and used again.
"""

import argparse
from pathlib import Path

WORK = "training.commands.run_train"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", nargs="?", help="a recipe's file, or the name of a shipped recipe")
    parser.add_argument("--list", action="store_true", help="list the shipped recipes")
    parser.add_argument("--show", action="store_true", help="print the whole recipe")
    about = "a manifest, or a folder of one's own; items without splits get 80/10/10"
    parser.add_argument("--manifest", "--folder", type=Path, metavar="PATH", help=about)
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--resume", action="store_true", help="continue the unfinished run in --out")
    parser.add_argument("--strict", action="store_true", help="refuse items that cannot be read")
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 (default: a GPU if there is one)")
    parser.add_argument("--out", type=Path, help="folder of the run (default: runs/NAME)")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="views and generated sets")
