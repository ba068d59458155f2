"""Learn a text reader from captions, or make one a part of a bundle; no download, no torch.

    multifold train-reader --manifest furniture/manifest.jsonl --split train --out readers/furniture
    multifold train-reader --manifest furniture/manifest.jsonl --split train --bundle bundles/furniture
    multifold train-reader --from readers/potion-base-8M --bundle bundles/furniture

A text reader compares texts with texts, which the text tower of an encoder does badly. It learns from items
with two texts or more: words that different texts of one thing use mean alike. docs/readers.md describes it.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from multifold import manifest
from multifold.bundle import bundle as bundles
from multifold.bundle.text_reader import open_text_reader
from multifold.errors import MultifoldError
from training.data import word_table


class ReaderCommandError(MultifoldError):
    """Options that do not fit together."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to learn from, and where to."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--manifest", type=Path, help="items with their texts, a .jsonl")
    source.add_argument("--from", dest="folder", type=Path, metavar="FOLDER", help="a reader that is there")
    parser.add_argument("--split", help="of the manifest (default: all items)")
    parser.add_argument("--dim", type=int, help="numbers of a vector (default: the best on held-out items)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write the reader here")
    parser.add_argument("--bundle", type=Path, help="make it a part of this bundle")


def run(args: argparse.Namespace) -> int:
    """Learn, measure, write; say how well it does on items that it did not learn from."""
    if args.bundle is None and (args.out is None or args.folder is not None):
        raise ReaderCommandError(
            "say where to: --out FOLDER for a new reader, --bundle for a part of a bundle"
        )
    with TemporaryDirectory() as aside:
        folder = args.folder or args.out or Path(aside)
        if args.manifest is not None:
            _learn(args.manifest, args.split, args.dim, folder)
        reader = open_text_reader(folder)
        print(f"reader {reader.id}, {reader.dim} numbers a text, in {args.bundle or folder}")
        if args.bundle is not None:
            bundle = bundles.add_reader(args.bundle, folder)
            print(f"bundle {bundle.bundle_id} (vectors {bundle.vector_id}) in {args.bundle}")
    return 0


def _learn(path: Path, split: str | None, dim: int | None, folder: Path) -> None:
    captions = [entry.texts for entry in manifest.read(path, split)]
    print(f"learning from the texts of {len(captions)} items", flush=True)
    best, recall = word_table.choose_dim(captions, word_table.DIMS if dim is None else (dim,))
    table = word_table.learn_words(captions, best)
    measured = {"items": recall.items, "R@1": round(recall.first, 4), "R@10": round(recall.tenth, 4)}
    table.write(folder, {"learned_from": len(captions), "held_out": measured})
    print(
        f"{recall.items} held-out items, asked by one text: R@1 {recall.first:.3f}, R@10 {recall.tenth:.3f}"
    )
