"""Make a data set, or read one that is there, into a manifest.

    multifold data furniture --items 3000 --seed 0 furniture/
    multifold data folder my-things/ my-things.jsonl
    multifold data flickr30k dataset_flickr30k.json flickr30k-images/ flickr30k.jsonl
    multifold data webdataset 'shards/{000000..000123}.tar' web.jsonl
    multifold data to-webdataset my-things.jsonl 'shards/%06d.tar'
    multifold data text2shape captions.tablechair.csv ShapeNetCore.v2/ text2shape.jsonl --splits splits/

What is left out, and what is odd, is told. docs/datasets.md describes the layouts.
"""

import argparse
from collections import Counter
from pathlib import Path

from multifold import manifest
from multifold.machine import cores
from training.data.furniture.dataset import FurnitureOrder, write_furniture
from training.data.furniture.generator import CAPTIONS
from training.data.furniture.modeling.facts import ATTRIBUTES
from training.data.sources import captioned, folder, text2shape, webdataset
from training.data.sources import folder as check
from training.data.sources.imported import (
    SHARES,
    ImportedDataset,
    compare_counts,
    parse_shares,
    write_imported,
)

DEFAULT_ITEMS = 3000
MOST_WORKERS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One sub-command a data set."""
    datasets = parser.add_subparsers(title="data sets", metavar="DATASET", required=True)
    _add_furniture(datasets.add_parser("furniture", help="procedural 3D furniture with true captions"))
    _add_folder(datasets.add_parser("folder", help="meshes and pictures with captions beside them"))
    for name in captioned.PUBLISHED:
        _add_captioned(datasets.add_parser(name, help="photos with captions"), name)
    _add_webdataset(datasets.add_parser("webdataset", help="tar shards"))
    _add_to_webdataset(datasets.add_parser("to-webdataset", help="a manifest's items into tar shards"))
    _add_text2shape(datasets.add_parser("text2shape", help="captions of ShapeNet's chairs and tables"))


def run(args: argparse.Namespace) -> int:
    """Run the data set's own function."""
    status: int = args.make(args)
    return status


def _add_furniture(parser: argparse.ArgumentParser) -> None:
    workers = min(MOST_WORKERS, cores())
    parser.add_argument("out", type=Path, metavar="OUT", help="a new or empty folder")
    parser.add_argument("--items", type=int, default=DEFAULT_ITEMS, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="default: %(default)s")
    parser.add_argument(
        "--captions", type=int, default=CAPTIONS, help="captions an item, default: %(default)s"
    )
    parser.add_argument(
        "--unsaid", nargs="+", choices=ATTRIBUTES, default=[], help="what captions are silent about"
    )
    parser.add_argument("--workers", type=int, default=workers, help="processes, default: %(default)s")
    parser.add_argument("--allow-twins", action="store_true", help="let near-twins cross the splits")
    parser.set_defaults(make=_furniture)


def _furniture(args: argparse.Namespace) -> int:
    order = FurnitureOrder(args.out, args.seed, args.captions, args.allow_twins, tuple(args.unsaid))
    print(f"making {args.items} pieces of furniture (seed {args.seed}) in {args.out}")
    entries = write_furniture(order, args.items, args.workers)
    splits = Counter(entry.split for entry in entries)
    shares = ", ".join(f"{splits[name]} {name}" for name in ("train", "val", "test"))
    print(f"wrote {args.out / 'manifest.jsonl'}: {shares}")
    return 0


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    _add_common(parser)
    parser.add_argument(
        "--no-check", action="store_true", help="do not open every file to see if it is whole"
    )
    parser.set_defaults(make=_folder)


def _folder(args: argparse.Namespace) -> int:
    found = folder.read_folder(args.folder, parse_shares(args.shares))
    return _tell(found if args.no_check else check.leave_out_broken(found), args.out)


def _add_captioned(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("captions", type=Path, help="Karpathy's or COCO's .json, a .token file, or a table")
    parser.add_argument("images", type=Path, help="the folder of the pictures")
    _add_common(parser)
    for split in ("train", "val", "test"):
        parser.add_argument(
            f"--{split}", type=Path, metavar="LIST", help=f"a file that names the {split} pictures"
        )
    parser.set_defaults(make=_captioned, name=name)


def _captioned(args: argparse.Namespace) -> int:
    lists = {split: path for split in ("train", "val", "test") if (path := getattr(args, split))}
    found = captioned.read_captioned(args.captions, args.images, parse_shares(args.shares), lists)
    return _tell(found, args.out, compare_counts(found, captioned.PUBLISHED[args.name]))


def _add_text2shape(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("captions", type=Path, help="captions.tablechair.csv")
    parser.add_argument("shapenet", type=Path, help="the folder with 03001627 and 04379243 in it")
    _add_common(parser)
    parser.add_argument(
        "--splits", type=Path, metavar="FOLDER", help="one file a split; without: our own splits"
    )
    parser.set_defaults(make=_text2shape)


def _text2shape(args: argparse.Namespace) -> int:
    found = text2shape.read_text2shape(args.captions, args.shapenet, args.splits, parse_shares(args.shares))
    if args.splits is None:
        print("these are splits of our own: numbers cannot be compared with published ones")
    return _tell(found, args.out, compare_counts(found, text2shape.PUBLISHED))


def _add_webdataset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shards", nargs="+", help="tar files; {000..123} and * stand for several")
    _add_common(parser)
    parser.add_argument("--unpack", type=Path, metavar="FOLDER", help="for the files; default: beside OUT")
    parser.add_argument(
        "--in-place", action="store_true", help="unpack nothing: name files by their places in the shards"
    )
    parser.add_argument("--shuffle", type=int, default=0, metavar="BUFFER", help="items held to be mixed")
    parser.add_argument("--seed", type=int, default=0, help="of the shuffle")
    parser.set_defaults(make=_webdataset)


def _webdataset(args: argparse.Namespace) -> int:
    if args.in_place:
        return _tell(webdataset.index_shards(args.shards, parse_shares(args.shares)), args.out)
    unpacked = args.unpack or args.out.with_suffix("")
    found = webdataset.unpack_shards(
        args.shards, unpacked, parse_shares(args.shares), args.shuffle, args.seed
    )
    return _tell(found, args.out)


def _add_to_webdataset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("manifest", type=Path)
    parser.add_argument("pattern", help="of the shards' names, with a number in it: shards/%%06d.tar")
    parser.add_argument("--items", type=int, default=1000, help="a shard, default: %(default)s")
    parser.add_argument("--split", help="only the items of this split")
    parser.add_argument("--shuffle", type=int, default=0, metavar="BUFFER", help="items held to be mixed")
    parser.add_argument("--seed", type=int, default=0, help="of the shuffle")
    parser.set_defaults(make=_to_webdataset)


def _to_webdataset(args: argparse.Namespace) -> int:
    entries = manifest.read(args.manifest, args.split)
    mixed = webdataset.shuffle(entries, args.shuffle, args.seed) if args.shuffle else entries
    written, problems = webdataset.write_shards(mixed, args.pattern, max(1, args.items))
    print(
        "\n".join([*problems, f"wrote {len(written)} shards, the last {written[-1] if written else 'none'}"])
    )
    return 0


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="the manifest to write, a .jsonl")
    parser.add_argument(
        "--shares", default=SHARES, help="train/val/test in percent, where no split is given: %(default)s"
    )


def _tell(found: ImportedDataset, out: Path, differences: list[str] | None = None) -> int:
    print("\n".join([*write_imported(found, out), *(differences or [])]))
    return 0
