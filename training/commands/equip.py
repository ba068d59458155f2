"""Add captions to a bundle, among which `multifold generalise` looks for more general ones.

    multifold add-captions bundles/furniture --pool furniture

`multifold export --pool` adds one to a new bundle. The vectors, the vector_id and all other files of the
bundle stay as they are.
"""

import argparse
from pathlib import Path

from multifold.bundle import bundle as bundles
from training.data.caption_pools import add_pool, load_pool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path)
    about = "captions for traversals: 'furniture', 'everyday' or a file of lines"
    parser.add_argument("--pool", required=True, help=about)


def run(args: argparse.Namespace) -> int:
    sealed = add_pool(bundles.load(args.bundle), load_pool(args.pool))
    print(f"bundle {sealed.bundle_id} (vectors {sealed.vector_id}) in {args.bundle}")
    return 0
