"""Measure an encoder on manifests: retrieval by named protocols, with intervals, as JSON, Markdown and HTML.

multifold eval bundles/furniture furniture/manifest.jsonl --split test --label kind
multifold eval bundles/clip cars.jsonl pets.jsonl --split test --label class --prompts prompts.txt
multifold eval http://127.0.0.1:8000 furniture/manifest.jsonl --split test

The encoder is a bundle, a checkpoint, or a running service that holds the items; the numbers are the same.
Several manifests with a --label have a report each, and a table of their classifications with the mean.
"""

import argparse
from pathlib import Path

WORK = "training.evaluate.evaluation"
PROTOCOLS = (
    "own",
    "equal-texts",
    "text2shape-1492",
    "text2shape-1434",
    "mxm-image",
    "flickr30k-1k",
    "coco-5k",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("encoder", help="a bundle's folder, a checkpoint, or the address of a service")
    parser.add_argument("manifests", type=Path, nargs="+", metavar="MANIFEST")
    parser.add_argument("--split", help="only items of this split")
    parser.add_argument("--items", type=int, help="only the first so many")
    parser.add_argument("--ids", type=Path, metavar="LIST", help="only the items that it names, one a line")
    parser.add_argument("--protocol", default="own", help=f"one of {', '.join(PROTOCOLS)}; %(default)s")
    parser.add_argument("--label", metavar="KEY", help="a key of the items' metadata: tables by its values")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for report.json, .md and .html")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")
    device = "of a checkpoint: cuda, cuda:1, or auto for a GPU if there is one; default: %(default)s"
    parser.add_argument("--device", default="cpu", help=device)
    parser.add_argument("--probe", action="store_true", help="with --label: linear probe, from train and val")
    prompts = "with --label: prompts of a class, one a line, with {} in the class's place"
    parser.add_argument("--prompts", type=Path, metavar="FILE", help=prompts)
    averaged = "with --label: average an item's distances to the prompts of a class, as oblique's paper does"
    parser.add_argument("--average-distances", action="store_true", help=averaged)
    draws = "of a kernel cloud's checkpoint: mean and deviation over so many draws of random features"
    parser.add_argument("--draws", type=int, metavar="N", help=draws)
    parser.add_argument("--frequencies", type=int, metavar="D", help="random features of each of the --draws")
    parser.add_argument("--key", help="API key of the service")
