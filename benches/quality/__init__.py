"""What a search finds, and how sure it is: furniture, models and pictures, before and after a fit.

    multifold bench quality
    multifold bench quality --data data/dev --use choose --world models emoji
    multifold bench quality --data data/dev --reader readers/potion-base-4M --out quality.json
    multifold bench quality --photos data/photos --world photos --encoder general demo random

Collections are made in a temporary folder and asked over HTTP, with the demo encoder, with one of random
weights, with the general one if it has been made and, if a bundle or a reader is named, with that. `--data`
has files, with texts in `items.jsonl`; `--photos` has photographs, with captions in `photos.jsonl`.
Descriptions in other words have two halves: `choose` is for developing, `report` for nothing but a report.
Those of symbols are for a report alone.
"""

import argparse
from pathlib import Path

WORK = "benches.quality.quality"
WORLDS = ("furniture", "mixed", "models", "emoji", "symbols", "objects", "photos", "drawn")
ENCODERS = ("demo", "random", "general", "good")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--world", nargs="+", choices=WORLDS, default=WORLDS)
    parser.add_argument("--encoder", nargs="+", choices=ENCODERS, default=ENCODERS)
    parser.add_argument("--data", type=Path, help="folder with items.jsonl, for most worlds")
    parser.add_argument("--photos", type=Path, help="folder with photos.jsonl, for the world of that name")
    parser.add_argument("--bundle", type=Path, help="a good encoder")
    parser.add_argument("--reader", type=Path, help="a good text reader, for that encoder or the demo's")
    parser.add_argument("--use", choices=("choose", "report"), default="report", help="half of other words")
    parser.add_argument("--items", type=int, default=240, help="pieces of furniture; default: %(default)s")
    parser.add_argument("--queries", type=int, default=200, help="of a row, at most; default: %(default)s")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write rows, legs and answers as JSON")
