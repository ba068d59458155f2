"""Turn a checkpoint, open weights, or a bundle's smaller variant into a bundle that checks itself.

    multifold export runs/demo/checkpoint.pt bundles/demo
    multifold export runs/next/checkpoint.pt bundles/next --against bundles/demo
    multifold export bundles/demo bundles/demo-int8 --variant int8
    multifold export open_clip:ViT-B-16/openai bundles/clip --held-out things.jsonl
    multifold export openshape:model.pt --beside bundles/clip-b32

It is measured on held-out items: those of its recipe, or the test split of another manifest (--held-out).
With --against both bundles are measured; a new one with lower recall is refused, unless with --force. So is
one with too few held-out items to show a fall of recall by --difference.
--pool adds captions for traversals.
A point tower that was trained beside a bundle is added to a copy of it, if that finds no less than without.
openshape:FILE is a published point encoder. It is added to a copy of a bundle in the space of the same CLIP.
"""

import argparse
from pathlib import Path

WORK = "training.commands.run_export"
VARIANTS = ("fp16", "int8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", help="a checkpoint; open_clip:MODEL/TAG, …/FILE or :FOLDER; openshape:FILE; a bundle"
    )
    parser.add_argument("bundle", type=Path, nargs="?", help="folder to write the bundle into")
    parser.add_argument("--beside", type=Path, metavar="BUNDLE", help="the bundle for openshape:FILE")
    parser.add_argument("--held-out", type=Path, metavar="MANIFEST", help="measure on its test split")
    parser.add_argument("--against", type=Path, metavar="OLD", help="a bundle that must not be better")
    about = "a fall of recall that the held-out items must be able to show; default: %(default)s"
    parser.add_argument("--difference", type=float, default=0.1, metavar="D", help=about)
    parser.add_argument(
        "--force",
        action="store_true",
        help="write it even if OLD finds more, or if BUNDLE does not state its CLIP",
    )
    parser.add_argument("--variant", choices=VARIANTS, help="of a bundle: a smaller one")
    parser.add_argument("--tolerance", type=float, metavar="RECALL", help="recall a variant may lose")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json of weights without CLIP's tokenizer")
    parser.add_argument("--pool", help="captions for traversals: 'furniture', 'everyday' or a file of lines")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="views and generated sets")
