"""Verdicts on hits: list them, or export the collection with them for training.

    multifold feedback list
    multifold feedback export judged/ --collection chairs

The export is a manifest: each item with its originals, its captions, and the texts and pictures that people
found it good for; `meta.feedback` has those texts again, what it was bad for, and the items that were bad
where it was good. `multifold train-on-feedback` learns from it. A service may go on with the collection
meanwhile.
"""

import argparse
from pathlib import Path

from index.names import DEFAULT

WORK = "app.commands.run_feedback"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["list", "export"])
    parser.add_argument("out", type=Path, nargs="?", help="of an export: the folder of its manifest")
    parser.add_argument("--collection", default=DEFAULT, help="its name or an alias; default: %(default)s")
    parser.add_argument("--data", type=Path, help="folder of the collections (default: data)")
    parser.add_argument("--config", type=Path, help="TOML file of settings, as `multifold serve` takes it")
