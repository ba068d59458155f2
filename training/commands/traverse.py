"""List more and more general captions of a picture, a text or a mesh: those on the way to a bundle's root.

    multifold generalise bundles/furniture --text "a red chair with four black legs"
    multifold generalise bundles/furniture --image photo.jpg --html strip.html
    multifold generalise bundles/mine --manifest furniture/manifest.jsonl --split test --widths 0.1 0.3 0.8

Captions are the bundle's own pool, or --captions: a file of lines, 'furniture' or 'everyday'. Widths (K) of
the cones are for Euclidean and Lorentz geometries: only captions whose cone contains the step count. For a
manifest the command prints means, and the distance of each side to the root.
"""

import argparse
from pathlib import Path

WORK = "training.evaluate.traversal"
STEPS = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--text")
    what.add_argument("--image", type=Path)
    what.add_argument("--mesh", type=Path)
    what.add_argument("--manifest", type=Path)
    parser.add_argument("--split", help="of the manifest")
    about = "only the first so many of the manifest, default: %(default)s"
    parser.add_argument("--items", "--most", type=int, default=300, help=about)
    parser.add_argument("--captions", help="a file of lines, or 'furniture', 'everyday'")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--widths", type=float, nargs="+", default=[], metavar="K", help="of the cones")
    parser.add_argument("--json", type=Path, help="write the paths and the figures here")
    parser.add_argument("--html", type=Path, help="write a page that shows them here")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")
