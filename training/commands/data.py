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
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from multifold import manifest
from multifold.machine import cores
from training.data.furniture.generator import CAPTIONS
from training.data.furniture.modeling.facts import ATTRIBUTES
from training.data.sources import captioned, folder, text2shape, webdataset
from training.data.sources.imported import (
    SHARES,
    SPLITS,
    ImportedDataset,
    compare_counts,
    parse_shares,
    write_imported,
)

DEFAULT_ITEMS = 3000
MOST_WORKERS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    datasets = parser.add_subparsers(title="data sets", metavar="DATASET", required=True)

    one = datasets.add_parser("furniture", help="procedural 3D furniture with true captions")
    one.add_argument("out", type=Path, metavar="OUT", help="a new or empty folder")
    one.add_argument("--items", type=int, default=DEFAULT_ITEMS, metavar="N", help="default: %(default)s")
    one.add_argument("--seed", type=int, default=0, metavar="S", help="default: %(default)s")
    one.add_argument("--captions", type=int, default=CAPTIONS, help="an item, default: %(default)s")
    one.add_argument("--unsaid", nargs="+", choices=ATTRIBUTES, default=[], help="left out of captions")
    workers = min(MOST_WORKERS, cores())
    one.add_argument("--workers", type=int, default=workers, help="processes, default: %(default)s")
    one.add_argument("--allow-twins", action="store_true", help="let near-twins cross the splits")
    one.set_defaults(make=_furniture)

    one = datasets.add_parser("folder", help="meshes and pictures with captions beside them")
    one.add_argument("folder", type=Path)
    _add_output(one)
    _add_check(one)
    one.set_defaults(make=_folder)

    for name in captioned.PUBLISHED:
        one = datasets.add_parser(name, help="photos with captions")
        one.add_argument("captions", type=Path, help="Karpathy's or COCO's .json, a .token file, or a table")
        one.add_argument("images", type=Path, help="the folder of the pictures")
        _add_output(one)
        for split in SPLITS:
            one.add_argument(f"--{split}", type=Path, metavar="LIST", help=f"names the {split} pictures")
        one.set_defaults(make=_captioned, name=name)

    one = datasets.add_parser("webdataset", help="tar shards")
    one.add_argument("shards", nargs="+", help="tar files; {000..123} and * stand for several")
    _add_output(one)
    _add_check(one)
    one.add_argument("--unpack", type=Path, metavar="FOLDER", help="for the files; default: beside OUT")
    one.add_argument("--in-place", action="store_true", help="name files by their places in the shards")
    _add_shuffle(one)
    one.set_defaults(make=_webdataset)

    one = datasets.add_parser("to-webdataset", help="a manifest's items into tar shards")
    one.add_argument("manifest", type=Path)
    one.add_argument("pattern", help="of the shards' names, with a number in it: shards/%%06d.tar")
    one.add_argument("--items", type=int, default=1000, help="a shard, default: %(default)s")
    one.add_argument("--split", help="only the items of this split")
    _add_shuffle(one)
    one.set_defaults(make=_to_webdataset)

    one = datasets.add_parser("text2shape", help="captions of ShapeNet's chairs and tables")
    one.add_argument("captions", type=Path, help="captions.tablechair.csv")
    one.add_argument("shapenet", type=Path, help="the folder with 03001627 and 04379243 in it")
    _add_output(one)
    one.add_argument("--splits", type=Path, metavar="FOLDER", help="a file a split; without: our own splits")
    one.set_defaults(make=_text2shape)


def _add_shuffle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shuffle", type=int, default=0, metavar="BUFFER", help="items held to be mixed")
    parser.add_argument("--seed", type=int, default=0, help="of the shuffle")


def _add_check(parser: argparse.ArgumentParser) -> None:
    about = "do not open every file to see if it is whole"
    parser.add_argument("--no-check", action="store_true", help=about)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="the manifest to write, a .jsonl")
    about = "train/val/test in percent, where no split is given: %(default)s"
    parser.add_argument("--shares", default=SHARES, help=about)


def run(args: argparse.Namespace) -> int:
    args.make(args)
    return 0


def _furniture(args: argparse.Namespace) -> None:
    from training.data.furniture.dataset import FurnitureOrder, write_furniture

    order = FurnitureOrder(args.out, args.seed, args.captions, args.allow_twins, tuple(args.unsaid))
    print(f"making {args.items} pieces of furniture (seed {args.seed}) in {args.out}")
    splits = Counter(entry.split for entry in write_furniture(order, args.items, args.workers))
    print(f"wrote {args.out / 'manifest.jsonl'}: {', '.join(f'{splits[name]} {name}' for name in SPLITS)}")


def _folder(args: argparse.Namespace) -> None:
    dataset = folder.read_folder(args.folder, parse_shares(args.shares))
    _write(dataset if args.no_check else folder.leave_out_broken(dataset), args.out)


def _captioned(args: argparse.Namespace) -> None:
    lists = {split: path for split in SPLITS if (path := getattr(args, split))}
    dataset = captioned.read_captioned(args.captions, args.images, parse_shares(args.shares), lists)
    _write(dataset, args.out, captioned.PUBLISHED[args.name])


def _text2shape(args: argparse.Namespace) -> None:
    shares = parse_shares(args.shares)
    dataset = text2shape.read_text2shape(args.captions, args.shapenet, args.splits, shares)
    if args.splits is None:
        print("these are splits of our own: numbers cannot be compared with published ones")
    _write(dataset, args.out, text2shape.PUBLISHED)


def _webdataset(args: argparse.Namespace) -> None:
    shares, target = parse_shares(args.shares), args.unpack or args.out.with_suffix("")
    if args.in_place:
        dataset = webdataset.index_shards(args.shards, shares)
    else:
        dataset = webdataset.unpack_shards(args.shards, target, shares, args.shuffle, args.seed)
    _write(dataset if args.no_check else folder.leave_out_broken(dataset), args.out)


def _to_webdataset(args: argparse.Namespace) -> None:
    entries = manifest.read(args.manifest, args.split)
    mixed = webdataset.shuffle(entries, args.shuffle, args.seed) if args.shuffle else entries
    shards, problems = webdataset.write_shards(mixed, args.pattern, max(1, args.items))
    print("\n".join([*problems, f"wrote {len(shards)} shards, the last {shards[-1] if shards else 'none'}"]))


def _write(
    dataset: ImportedDataset, out: Path, published: Mapping[str, tuple[int, int]] | None = None
) -> None:
    print("\n".join([*write_imported(dataset, out), *compare_counts(dataset, published or {})]))
