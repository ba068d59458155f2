"""Options that commands on collections share. Importing this takes no time."""

import argparse
from pathlib import Path

BUNDLE = Path("bundles/furniture")
BUCKET, DATABASE = "MULTIFOLD_BUCKET", "MULTIFOLD_DATABASE"


def add_bundle(parser: argparse.ArgumentParser) -> None:
    """The encoder, for collections that have one."""
    about = "folder of the encoder; not needed for plain embeddings"
    parser.add_argument("--bundle", type=Path, default=BUNDLE, help=about)
