"""Fill one embedded collection with generated items of several views and captions, and use it at that size.

    multifold bench largest --items 1000000 --dim 128 --data FOLDER

Features are generated: every item is near one of many centres, its observations near the item, and captions
are shifted from views. An existing full folder is only searched. Times are wall time.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float32
from tqdm import tqdm

from benches.reporting import quantiles, time_calls
from index.collection import Collection
from index.contracts import AUTO, CollectionLocation, IndexPlan
from index.maintenance.stats import collect_stats
from index.plain_space import PlainSpace
from index.store.filters import Filter, parse_filter
from multifold.types import Features, Item, Observation, Pooling, Query

CENTRES = 4096
ITEM, VIEW, CAPTION = 0.8, 0.4, 0.8  # distances of items to a centre, of views and captions to their item
GAP = 0.5  # by which captions are shifted, all the same way
KINDS = 100  # values of the key that is filtered by
WORDS = 2000
WORDS_OF_CAPTION = 8
TOGETHER = 256  # items of one upsert
SEARCHES = 1000
EXACT_QUERIES = 100  # queries that are also answered by exact search
CHANGES = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--views", type=int, default=6)
    parser.add_argument("--captions", type=int, default=5)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--type", default=AUTO, help="of the index: auto or a FAISS factory string")
    parser.add_argument("--data", type=Path, help="a folder to keep, default: one that is thrown away")


def run(args: argparse.Namespace) -> int:
    """Fill it, then open it and use it, a line as soon as it is known."""
    with tempfile.TemporaryDirectory(prefix="multifold-largest-") as aside:
        folder = args.data or Path(aside) / "collection"
        for line in measure_largest(args, folder, Path(aside)):
            tqdm.write(line)
    return 0


def measure_largest(args: argparse.Namespace, folder: Path, aside: Path) -> Iterator[str]:
    world = GeneratedCollection(args.dim, args.views, args.captions)
    yield f"{args.items} items, {args.views} views and {args.captions} captions each, {args.dim} numbers.\n"
    yield "| | |\n|---|---|"
    with _opened(args, folder) as collection:
        yield from _fill(collection, world, args.items)
        start = time.perf_counter()
    yield f"| closed | {_seconds(start)} |"
    taken = collect_stats(CollectionLocation(folder)).bytes
    yield f"| store, bytes an item | {taken['store'] / args.items:,.0f} |"
    yield f"| index on disk, bytes an item | {taken['index'] / args.items:,.0f} |"
    start = time.perf_counter()
    with _opened(args, folder) as collection:
        yield f"| opened | {_seconds(start)} |"
        collection.search(world.query(0))
        yield f"| opened, and the first search answered | {_seconds(start)} |"
        yield from _searches(collection, world)
        yield from _changes(collection, world, args.items)
        start = time.perf_counter()
        size = collection.snapshot(aside / "one.snapshot").size
        yield f"| snapshot | {_seconds(start)}, {size / 1e9:.2f} GB |"


class GeneratedCollection:
    """Items by their number, and queries."""

    def __init__(self, dim: int, views: int, captions: int) -> None:
        rng = np.random.default_rng(0)
        self._centres = rng.standard_normal((CENTRES, dim), np.float32)
        self._gap = GAP * rng.standard_normal(dim, np.float32)
        self._sizes = (views, captions)
        self._words = [f"word{number}" for number in range(WORDS)]

    def items(self, first: int, count: int, edition: int = 0) -> list[Item]:
        """Some items; another edition of them has other features."""
        rng = np.random.default_rng([first, edition])
        near = self._near(rng, count)
        views, captions = (
            near[:, None] + spread * rng.standard_normal((count, size, near.shape[1]), np.float32)
            for size, spread in zip(self._sizes, (VIEW, CAPTION), strict=True)
        )
        texts = rng.integers(WORDS, size=(count, self._sizes[1], WORDS_OF_CAPTION))
        kinds = rng.integers(KINDS, size=count).tolist()
        return [
            Item(
                f"item-{first + place:07}",
                (
                    *(Observation("view", number, feature) for number, feature in enumerate(views[place])),
                    *self._captions(captions[place] + self._gap, texts[place].tolist()),
                ),
                {"kind": f"kind {kinds[place]}", "price": first + place},
            )
            for place in range(count)
        ]

    def query(self, number: int, pool: Pooling = "mean") -> Query:
        """A caption vector near some centre, of no item."""
        rng = np.random.default_rng([number, CENTRES])
        near = self._near(rng, 1)[0]
        caption = near + self._gap + CAPTION * rng.standard_normal(len(near), np.float32)
        return Query(np.asarray(caption / np.linalg.norm(caption), np.float32), "shape", pool=pool)

    def _near(self, rng: np.random.Generator, count: int) -> Float32[np.ndarray, "c d"]:
        chosen = self._centres[rng.integers(CENTRES, size=count)]
        return chosen + ITEM * rng.standard_normal(chosen.shape, np.float32)

    def _captions(self, features: Features, texts: Sequence[Sequence[int]]) -> Iterator[Observation]:
        for place, (feature, words) in enumerate(zip(features, texts, strict=True)):
            yield Observation("caption", place, feature, text=" ".join(self._words[one] for one in words))


def _opened(args: argparse.Namespace, folder: Path) -> Collection:
    return Collection.open(folder, PlainSpace("cosine", args.dim), plan=IndexPlan(args.type, "cpu"))


def _fill(collection: Collection, world: GeneratedCollection, wanted: int) -> Iterator[str]:
    present, times = collection.count(), list[float]()
    start = time.perf_counter()
    for first in tqdm(range(present, wanted, TOGETHER), "writing", unit_scale=TOGETHER, disable=None):
        items = world.items(first, min(TOGETHER, wanted - first))
        before = time.perf_counter()
        collection.upsert(items)
        times.append(time.perf_counter() - before)
    if times:
        yield f"| written, {TOGETHER} items at a time | {_seconds(start)} |"
        yield f"| items a second | {(wanted - present) / sum(times):,.0f} |"
        yield f"| one write of them | {quantiles(times)} |"
    start = time.perf_counter()
    reports = collection.settle()
    yield f"| then sealed | {_seconds(start)} |"
    for (side, kind), parts in reports.items():
        for one in parts:
            recall = ", ".join(f"{setting.recall:.3f} @{setting.limit}" for setting in one.settings)
            yield f"| {side}, {kind}: {one.rows:,} rows | {one.type}, recall {recall or 'exact'} |"


def _searches(collection: Collection, world: GeneratedCollection) -> Iterator[str]:
    kinds: dict[str, tuple[Pooling, Filter | None]] = {
        "one search, views as one": ("mean", None),
        "one search, each view": ("max", None),
        f"one search, one kind of {KINDS}": ("mean", parse_filter({"kind": "kind 7"})),
    }
    for name, (pool, where) in kinds.items():

        def search(number: int, pool: Pooling = pool, where: Filter | None = where) -> list[float]:
            return [hit.score for hit in collection.search(world.query(number, pool), where)]

        search(SEARCHES)
        yield f"| {name} | {quantiles(time_calls(search, SEARCHES))} |"
        shares = []
        for number in range(EXACT_QUERIES):
            best = [hit.score for hit in collection.search(world.query(number, pool), where, exact=True)]
            shares.append(np.mean([score >= best[-1] for score in search(number)]))
        yield f"| its recall@10 | {np.mean(shares):.3f} |"


def _changes(collection: Collection, world: GeneratedCollection, items: int) -> Iterator[str]:
    spread = np.random.default_rng(1).permutation(items)[: 2 * CHANGES].tolist()

    def write(turn: int) -> None:
        collection.upsert(world.items(spread[turn], 1, edition=1))

    def remove(turn: int) -> None:
        collection.delete([f"item-{spread[CHANGES + turn]:07}"])

    yield f"| one item replaced | {quantiles(time_calls(write, CHANGES))} |"
    yield f"| one item deleted | {quantiles(time_calls(remove, CHANGES))} |"
    for number in spread[CHANGES:]:
        collection.upsert(world.items(number, 1))


def _seconds(start: float) -> str:
    return f"{time.perf_counter() - start:,.1f} s"
