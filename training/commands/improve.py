"""Improve an encoder with the feedback on its hits, or say why it does not improve.

    multifold train-on-feedback default --bundle bundles/furniture --to bundles/furniture-2
    multifold train-on-feedback chairs --to bundles/chairs-2 --service http://127.0.0.1:8000

The feedback on a collection is exported with its captions and views. The encoder is trained on a part of it
and on its former data. The new bundle is written if its recall is higher on the held-out part, beyond chance,
and no lower on the items that the old one was measured on. With --service the collection is rebuilt beside
the old one, verified, and an alias moved to it; the service must know the folder of --to (its --bundles).
docs/improve.md has the details.
"""

import argparse
from pathlib import Path

WORK = "training.commands.run_improve"
MIX = 0.8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("collection", help="its name or an alias; `default` for the one without a name")
    parser.add_argument("--to", type=Path, required=True, metavar="BUNDLE", help="folder of the new bundle")
    parser.add_argument("--bundle", type=Path, default=Path("bundles/furniture"), help="the one in use")
    parser.add_argument("--checkpoint", type=Path, help="its checkpoint; else searched in runs/")
    parser.add_argument("--data", type=Path, help="folder of the collections (default: data)")
    parser.add_argument("--config", type=Path, help="TOML file of settings, as `multifold serve` takes it")
    about = "an existing export of feedback"
    parser.add_argument("--feedback", "--said", type=Path, metavar="MANIFEST", help=about)
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="changes")
    about = "share of the new weights, of old and new; default: %(default)s"
    parser.add_argument(
        "--new-share", "--mix", dest="mix", type=float, default=MIX, metavar="SHARE", help=about
    )
    parser.add_argument("--service", metavar="URL", help="rebuild the collection there, and move an alias")
    parser.add_argument("--out", type=Path, help="folder of the run (default: runs/improve-COLLECTION)")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")
