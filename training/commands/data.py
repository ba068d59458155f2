"""Generate a data set, or import an existing one, as a manifest.

    multifold data furniture --items 3000 --seed 0 furniture/
    multifold data folder my-things/ my-things.jsonl
    multifold data flickr30k dataset_flickr30k.json flickr30k-images/ flickr30k.jsonl
    multifold data webdataset 'shards/{000000..000123}.tar' web.jsonl
    multifold data to-webdataset my-things.jsonl 'shards/%06d.tar'
    multifold data text2shape captions.tablechair.csv ShapeNetCore.v2/ text2shape.jsonl --splits splits/

Items that are left out, and oddities, are reported. docs/datasets.md describes the layouts.
"""

import argparse
from pathlib import Path

from multifold.machine import cores
from training.data.furniture.generator import CAPTIONS
from training.data.sources import captioned
from training.data.sources.imported import SHARES, SPLITS

WORK = "training.commands.run_data"
DEFAULT_ITEMS = 3000
MOST_WORKERS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    datasets = parser.add_subparsers(title="data sets", metavar="DATASET", required=True)

    one = datasets.add_parser("furniture", help="procedural 3D furniture with true captions")
    one.add_argument("out", type=Path, metavar="OUT", help="a new or empty folder")
    one.add_argument("--items", type=int, default=DEFAULT_ITEMS, metavar="N", help="default: %(default)s")
    one.add_argument("--seed", type=int, default=0, metavar="S", help="default: %(default)s")
    one.add_argument("--captions", type=int, default=CAPTIONS, help="an item, default: %(default)s")
    workers = min(MOST_WORKERS, cores())
    one.add_argument("--workers", type=int, default=workers, help="processes, default: %(default)s")
    one.add_argument("--allow-twins", action="store_true", help="let near-twins cross the splits")
    one.set_defaults(make="furniture")

    one = datasets.add_parser("folder", help="meshes and pictures with captions beside them")
    one.add_argument("folder", type=Path)
    _add_output(one)
    _add_check(one)
    one.set_defaults(make="folder")

    for name in captioned.PUBLISHED:
        one = datasets.add_parser(name, help="photos with captions")
        one.add_argument("captions", type=Path, help="Karpathy's or COCO's .json, a .token file, or a table")
        one.add_argument("images", type=Path, help="the folder of the pictures")
        _add_output(one)
        for split in SPLITS:
            one.add_argument(f"--{split}", type=Path, metavar="LIST", help=f"names the {split} pictures")
        one.set_defaults(make="captioned", name=name)

    one = datasets.add_parser("webdataset", help="tar shards")
    one.add_argument("shards", nargs="+", help="tar files; {000..123} and * stand for several")
    _add_output(one)
    _add_check(one)
    one.add_argument("--unpack", type=Path, metavar="FOLDER", help="for the files; default: beside OUT")
    one.add_argument("--in-place", action="store_true", help="name files by their places in the shards")
    one.set_defaults(make="webdataset")

    one = datasets.add_parser("to-webdataset", help="a manifest's items into tar shards")
    one.add_argument("manifest", type=Path)
    one.add_argument("pattern", help="of the shards' names, with a number in it: shards/%%06d.tar")
    one.add_argument("--items", type=int, default=1000, help="a shard, default: %(default)s")
    one.add_argument("--split", help="only the items of this split")
    one.set_defaults(make="to_webdataset")

    one = datasets.add_parser("text2shape", help="captions of ShapeNet's chairs and tables")
    one.add_argument("captions", type=Path, help="captions.tablechair.csv")
    one.add_argument("shapenet", type=Path, help="the folder with 03001627 and 04379243 in it")
    _add_output(one)
    one.add_argument("--splits", type=Path, metavar="FOLDER", help="a file a split; without: our own splits")
    one.set_defaults(make="text2shape")


def _add_check(parser: argparse.ArgumentParser) -> None:
    about = "do not open every file to see if it is whole"
    parser.add_argument("--no-check", action="store_true", help=about)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="the manifest to write, a .jsonl")
    about = "train/val/test in percent, where no split is given: %(default)s"
    parser.add_argument("--shares", default=SHARES, help=about)
