"""Train and measure the rows of a paper's table, and show ours beside it.

    multifold reproduce --list
    multifold reproduce mxm:5 --manifest data/text2shape.jsonl --seeds 0 1 2
    multifold reproduce mxm:5 --small
    multifold reproduce euclip:1 --manifest web.jsonl --test imagenet=imagenet.jsonl --rows EuCLIP MERU

Runs lie in --out, and tables share them. What is done is not done again: the same command goes on where it
was stopped, adds rows or seeds, and writes the table after each. --small takes small towers from scratch, on
generated furniture if no manifest is named: minutes a row on one core. Test sets that a table has beside the
manifest are named by --test; with --small the manifest stands for those that are not.
"""

import argparse
from pathlib import Path

WORK = "training.reproduction.reproduce"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", nargs="?", metavar="PAPER:TABLE")
    parser.add_argument("--list", action="store_true", help="list the tables: their data, runs and cost")
    parser.add_argument("--manifest", type=Path, metavar="FILE", help="what the rows learn from")
    parser.add_argument(
        "--test", nargs="+", action="extend", default=[], metavar="NAME=FILE", help="test sets by name"
    )
    parser.add_argument(
        "--prompts",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=FILE",
        help="of classes, by test set",
    )
    parser.add_argument("--label", metavar="KEY", help="where an item's metadata has its class")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="only these rows, by name or number")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="default: 0")
    parser.add_argument("--small", action="store_true", help="small towers, from scratch")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, help="of each run, in place of its recipe's")
    length.add_argument("--seconds", type=float, help="of each run: as many steps as they allow")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 (default: a GPU if there is one)")
    parser.add_argument("--out", type=Path, default=Path("runs/papers"), help="default: %(default)s")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="views and generated sets")
