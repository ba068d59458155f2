"""The work of `multifold data`: each data set is made by a function of its name."""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from multifold import manifest
from training.data.furniture.dataset import FurnitureOrder, write_furniture
from training.data.sources import captioned, folder, text2shape, webdataset
from training.data.sources.imported import (
    SPLITS,
    ImportedDataset,
    compare_counts,
    parse_shares,
    write_imported,
)


def run(args: argparse.Namespace) -> int:
    MAKERS[args.make](args)
    return 0


def make_furniture(args: argparse.Namespace) -> None:
    order = FurnitureOrder(args.out, args.seed, args.captions, args.allow_twins)
    print(f"making {args.items} pieces of furniture (seed {args.seed}) in {args.out}")
    splits = Counter(entry.split for entry in write_furniture(order, args.items, args.workers))
    print(f"wrote {args.out / 'manifest.jsonl'}: {', '.join(f'{splits[name]} {name}' for name in SPLITS)}")


def make_folder(args: argparse.Namespace) -> None:
    dataset = folder.read_folder(args.folder, parse_shares(args.shares))
    _write(dataset if args.no_check else folder.leave_out_broken(dataset), args.out)


def make_captioned(args: argparse.Namespace) -> None:
    lists = {split: path for split in SPLITS if (path := getattr(args, split))}
    dataset = captioned.read_captioned(args.captions, args.images, parse_shares(args.shares), lists)
    _write(dataset, args.out, captioned.PUBLISHED[args.name])


def make_text2shape(args: argparse.Namespace) -> None:
    shares = parse_shares(args.shares)
    dataset = text2shape.read_text2shape(args.captions, args.shapenet, args.splits, shares)
    if args.splits is None:
        print("these are splits of our own: numbers cannot be compared with published ones")
    _write(dataset, args.out, text2shape.PUBLISHED)


def make_webdataset(args: argparse.Namespace) -> None:
    shares = parse_shares(args.shares)
    target = args.unpack or args.out.with_suffix("")
    if args.in_place:
        dataset = webdataset.index_shards(args.shards, shares)
    else:
        dataset = webdataset.unpack_shards(args.shards, target, shares)
    _write(dataset if args.no_check else folder.leave_out_broken(dataset), args.out)


def make_to_webdataset(args: argparse.Namespace) -> None:
    entries = manifest.read(args.manifest, args.split)
    shards, problems = webdataset.write_shards(entries, args.pattern, max(1, args.items))
    print("\n".join([*problems, f"wrote {len(shards)} shards, the last {shards[-1] if shards else 'none'}"]))


def _write(
    dataset: ImportedDataset, out: Path, published: Mapping[str, tuple[int, int]] | None = None
) -> None:
    print("\n".join([*write_imported(dataset, out), *compare_counts(dataset, published or {})]))


MAKERS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "furniture": make_furniture,
    "folder": make_folder,
    "captioned": make_captioned,
    "text2shape": make_text2shape,
    "webdataset": make_webdataset,
    "to_webdataset": make_to_webdataset,
}
