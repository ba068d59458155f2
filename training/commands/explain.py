"""Say which parts of a picture and which words made them match, or which parts of a mesh match a text.

    multifold explain bundles/furniture --image photo.jpg --text "a red chair" --html why.html --json why.json
    multifold explain runs/demo/checkpoint.pt --image photo.jpg --text "a red chair" --html why.html
    multifold explain bundles/points --mesh chair.glb --text "a red chair" --html why.html

A bundle explains by occlusion: how much the score falls when a place is blank or a word is missing. A
checkpoint explains by gradients (grad-cam); of point clouds, by the exact share of each point (points). A
mesh is explained by a bundle or a checkpoint with a point tower: how much the score falls when the points of
a region are left out.
"""

import argparse
from pathlib import Path
from typing import get_args

from multifold.types import ExplanationMethod

WORK = "training.commands.run_explain"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, help="a bundle or a checkpoint")
    explained = parser.add_mutually_exclusive_group(required=True)
    explained.add_argument("--image", type=Path)
    explained.add_argument("--mesh", type=Path)
    parser.add_argument("--text", required=True)
    parser.add_argument("--method", choices=get_args(ExplanationMethod))
    parser.add_argument("--token", type=int, help="of several tokens, explain this pair alone")
    parser.add_argument("--json", type=Path, help="write the shares here")
    parser.add_argument("--html", type=Path, help="write a page that shows them here")
