"""The effect of lexical search: names and part numbers are found, and sentences lose nothing.

    multifold bench lexical --data data/furniture

The collection is not changed. The last caption of each item is removed and becomes a query. Each item gets a
part number, and a file named after its id, as its whole payload.
"""

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int64

from benches.reporting import head, row
from index.collection import Collection
from index.commands.options import add_bundle
from index.texts.analysis import pieces
from multifold.bundle.canary import open_encoder
from multifold.errors import MultifoldError
from multifold.metrics import bootstrap
from multifold.types import Item, LexicalQuery, Observation, Query, Target, Vectors

DEPTHS = (1, 5, 10)
TARGETS: tuple[Target, ...] = ("shape", "text")
Ranked: TypeAlias = Int64[np.ndarray, " q"]
LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder of a collection of the bundle")
    add_bundle(parser)
    parser.add_argument("--items", type=int, default=600, help="at most so many")
    parser.add_argument("--seed", type=int, default=0, help="of the part numbers")


def run(args: argparse.Namespace) -> int:
    encoder = open_encoder(args.bundle)
    with Collection.open(args.data, encoder, read_only=True) as collection:
        whole = _items(collection, args.items)
    kept, held = zip(*map(_held_out, whole, _numbers(args.seed)), strict=False)
    sentences = [one.text or "" for one in held]
    vectors = encoder.vectors(np.stack([one.feature for one in held]))
    with (
        tempfile.TemporaryDirectory(prefix="multifold-lexical-") as folder,
        Collection.open(Path(folder), encoder) as collection,
    ):
        collection.upsert(kept)
        ranks = QueryRanks(collection, [item.id for item in kept])
        print(f"{len(kept)} items, one caption of each held out\n")
        print(head("sentence", "R@", "without words", "with words", "difference"))
        for target in TARGETS:
            _print_difference(target, ranks, sentences, vectors)
        print("\n" + head("asked with", "first without words", "first with words"))
        for name, query_of in KINDS.items():
            texts = [query_of(item) for item in kept]
            vectors = encoder.vectors(encoder.texts(texts).features)
            shares = [ranks.of(texts, vectors, "shape", words=words) == 1 for words in (False, True)]
            print(row(name, *(_share(one.astype(np.float64)) for one in shares)), flush=True)
    return 0


KINDS: dict[str, Callable[[Item], str]] = {
    "part number": lambda item: str(item.payload["part"]),
    "part number in a sentence": lambda item: f"where is the {str(item.payload['part']).lower()}?",
    "file name": lambda item: str(item.payload["path"]).rpartition("/")[2],
    "file name without suffix": lambda item: item.id.rpartition("/")[2],
    "its words": lambda item: " ".join(pieces(item.id.rpartition("/")[2])),
    "its words, backwards": lambda item: " ".join(reversed(pieces(item.id.rpartition("/")[2]))),
}


@dataclass(frozen=True)
class QueryRanks:
    """The ranks of the expected items in the hits."""

    collection: Collection
    names: Sequence[str]

    def of(self, texts: Sequence[str], vectors: Vectors, target: Target, *, words: bool) -> Ranked:
        """One rank each; behind the last where it is not found."""
        places = []
        for name, text, vector in zip(self.names, texts, vectors, strict=True):
            query = Query(vector, target, max(DEPTHS), words=LexicalQuery(text) if words else None)
            hits = [hit.id for hit in self.collection.search(query)]
            places.append(hits.index(name) + 1 if name in hits else max(DEPTHS) + 1)
        return np.array(places)


def _print_difference(target: Target, ranks: QueryRanks, texts: Sequence[str], vectors: Vectors) -> None:
    without, fused = (ranks.of(texts, vectors, target, words=words) for words in (False, True))
    for depth in DEPTHS:
        one, other = ((places <= depth).astype(np.float64) for places in (without, fused))
        low, high = bootstrap(other - one)
        lead = f"{other.mean() - one.mean():+.3f} [{low:+.3f}, {high:+.3f}]"
        print(row(f"text → {target}", depth, _share(one), _share(other), lead), flush=True)


def _share(hits: Float64[np.ndarray, " q"]) -> str:
    low, high = bootstrap(hits)
    return f"{hits.mean():.3f} [{low:.3f}, {high:.3f}]"


def _items(collection: Collection, most: int) -> list[Item]:
    """Items with more than one caption."""
    items: list[Item] = []
    while len(items) < most and (page := collection.scroll(items[-1].id if items else None, 500)):
        items += page
    if captioned := [item for item in items[:most] if len(_captions(item)) > 1]:
        return captioned
    raise MultifoldError("No item here has two captions: take one of them away, and nothing is left.")


def _held_out(item: Item, number: str) -> tuple[Item, Observation]:
    """The item without its last caption; its payload is that of a folder, with a part number."""
    held = _captions(item)[-1]
    rest = tuple(one for one in item.observations if one is not held)
    return Item(item.id, rest, {"path": f"pieces/{item.id}.glb", "part": number}), held


def _captions(item: Item) -> list[Observation]:
    return [one for one in item.observations if one.kind == "caption"]


def _numbers(seed: int) -> Iterator[str]:
    """Part numbers, as manufacturers write them."""
    rng = random.Random(seed)  # noqa: S311 (no secret)
    while True:
        yield f"{''.join(rng.choices(LETTERS, k=2))}-{rng.randrange(1000, 10_000)}/{rng.choice('abcdef')}"
