"""The furniture set on disk: meshes as GLB, and a manifest with captions, splits and facts."""

import hashlib
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tqdm import tqdm

from multifold import manifest
from multifold.errors import MultifoldError
from training.data.furniture.generator import CAPTIONS, make
from training.data.furniture.gltf import glb
from training.data.furniture.modeling.facts import Attribute
from training.data.furniture.modeling.piece import FurniturePiece

SHARES = {"train": 0.78, "val": 0.10, "test": 0.12}
ITEMS_A_TASK = 4  # items a task of a worker
MANIFEST = "manifest.jsonl"
STRUCTURAL: tuple[Attribute, ...] = ("absent", "count", "shape", "size")


def signature(piece: FurniturePiece) -> str:
    """Kind, main colour and structure; pieces that share it differ in small things only."""
    structure = sorted(fact.id for fact in piece.facts if fact.attribute in STRUCTURAL)
    return " ".join((piece.kind, piece.finish.colour, *structure))


def split_of_key(key: str) -> str:
    """The split that a key falls into, the same on every machine."""
    draw = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64
    edge = 0.0
    for name, share in SHARES.items():
        edge += share
        if draw < edge:
            return name
    return name


class FurnitureError(MultifoldError):
    """A furniture set that cannot be written as asked."""


@dataclass(frozen=True)
class FurnitureOrder:
    folder: Path
    seed: int
    captions: int = CAPTIONS
    allow_twins: bool = False


def write_furniture(order: FurnitureOrder, items: int, workers: int = 1) -> list[manifest.ManifestEntry]:
    """Write the first items of a seed's set; the bytes do not depend on the number of workers.

    It is made in a folder beside and moved into place whole, so an interrupted run leaves nothing in the way.
    """
    _check(order, items, workers)
    beside = order.folder.with_name(f"{order.folder.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    (beside / "meshes").mkdir(parents=True)
    stream = _write_items(replace(order, folder=beside), items, workers)
    entries = list(tqdm(stream, total=items, desc="furniture", unit="item", disable=None))
    manifest.write(beside / MANIFEST, entries)
    if order.folder.exists():
        order.folder.rmdir()
    beside.rename(order.folder)
    return list(manifest.read(order.folder / MANIFEST))


def _check(order: FurnitureOrder, items: int, workers: int) -> None:
    counts = {"items": items, "captions": order.captions, "workers": workers, "seed": order.seed}
    for name, value in counts.items():
        if value < (least := int(name != "seed")):
            raise FurnitureError(f"{name} is {value}; it must be at least {least}")
    if order.folder.exists() and (not order.folder.is_dir() or any(order.folder.iterdir())):
        raise FurnitureError(f"{order.folder} is not an empty folder; name a new one, or remove it first")


def _write_items(order: FurnitureOrder, items: int, workers: int) -> Iterator[manifest.ManifestEntry]:
    if workers == 1:
        yield from map(partial(_write_item, order), range(items))
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(partial(_write_item, order), range(items), chunksize=ITEMS_A_TASK)


def _write_item(order: FurnitureOrder, index: int) -> manifest.ManifestEntry:
    piece = make(order.seed, index, order.captions)
    name = f"furniture-{order.seed}-{index:05d}"
    path = order.folder / "meshes" / f"{name}.glb"
    path.write_bytes(glb(piece))
    texts = tuple(caption.text for caption in piece.captions)
    split = split_of_key(name if order.allow_twins else signature(piece))
    return manifest.ManifestEntry(name, mesh=path, texts=texts, split=split, meta=describe_piece(piece))


def describe_piece(piece: FurniturePiece) -> dict[str, Any]:
    """A piece as a JSON object: for filters, and for measures that need to know what is true of it."""
    return {
        "kind": piece.kind,
        "colour": piece.finish.colour,
        "material": piece.finish.material,
        "colours": sorted({part.finish.colour for part in piece.parts}),
        "counts": {fact.thing.id: int(fact.value) for fact in piece.facts if fact.attribute == "count"},
        "facts": {fact.id: sorted(fact.sides) for fact in piece.facts},
        "captions": [list(caption.facts) for caption in piece.captions],
        "signature": signature(piece),
    }
