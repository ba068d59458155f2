"""Fill one embedded collection with generated items of several views and captions, and use it at that size.

    multifold bench largest --items 1000000 --dim 128 --data FOLDER

Features are generated: every item lies near one of many centres, its observations near the item, and what is
said lies apart from what is seen. A folder that is full is only asked. Times are wall time.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float32
from tqdm import tqdm

from index.collection import Collection
from index.contracts import AUTO, IndexPlan
from index.maintenance.stats import collect_stats
from index.plain_space import PlainSpace
from index.store.filters import Filter, parse_filter
from multifold.types import Features, Item, Observation, Pooling, Query

CENTRES = 4096
ITEM, SEEN, SAID = 0.8, 0.4, 0.8  # how far items lie from a centre, and what was seen and said from its item
GAP = 0.5  # how far what was said is shifted, all the same way
KINDS = 100  # values of the key that is filtered by
WORDS = 2000
CAPTION = 8  # words
TOGETHER = 256  # items of one upsert
SEARCHES = 1000
ASKED = 100  # queries that are also answered by a look at every row
CHANGES = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How large it becomes, and where."""
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
    """What is done, and what it takes."""
    world = GeneratedCollection(args.dim, args.views, args.captions)
    yield f"{args.items} items, {args.views} views and {args.captions} captions each, {args.dim} numbers.\n"
    yield "| | |\n|---|---|"
    with _opened(args, folder) as collection:
        yield from _fill(collection, world, args.items)
        start = time.perf_counter()
    yield f"| closed | {_seconds(start)} |"
    taken = collect_stats(folder).bytes
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
        seen, said = (
            near[:, None] + spread * rng.standard_normal((count, size, near.shape[1]), np.float32)
            for size, spread in zip(self._sizes, (SEEN, SAID), strict=True)
        )
        texts = rng.integers(WORDS, size=(count, self._sizes[1], CAPTION))
        kinds = rng.integers(KINDS, size=count).tolist()
        return [
            Item(
                f"item-{first + place:07}",
                (*self._views(seen[place]), *self._captions(said[place] + self._gap, texts[place].tolist())),
                {"kind": f"kind {kinds[place]}", "price": first + place},
            )
            for place in range(count)
        ]

    def query(self, number: int, pool: Pooling = "mean") -> Query:
        """What nobody has said yet of what may be there."""
        rng = np.random.default_rng([number, CENTRES])
        near = self._near(rng, 1)[0]
        said = near + self._gap + SAID * rng.standard_normal(len(near), np.float32)
        return Query(np.asarray(said / np.linalg.norm(said), np.float32), "shape", pool=pool)

    def _near(self, rng: np.random.Generator, count: int) -> Float32[np.ndarray, "c d"]:
        chosen = self._centres[rng.integers(CENTRES, size=count)]
        return chosen + ITEM * rng.standard_normal(chosen.shape, np.float32)

    def _views(self, features: Features) -> Iterator[Observation]:
        return (Observation("view", place, feature) for place, feature in enumerate(features))

    def _captions(self, features: Features, texts: Sequence[Sequence[int]]) -> Iterator[Observation]:
        for place, (feature, words) in enumerate(zip(features, texts, strict=True)):
            yield Observation("caption", place, feature, text=" ".join(self._words[one] for one in words))


def _opened(args: argparse.Namespace, folder: Path) -> Collection:
    return Collection.open(folder, PlainSpace("cosine", args.dim), plan=IndexPlan(args.type, "cpu"))


def _fill(collection: Collection, world: GeneratedCollection, wanted: int) -> Iterator[str]:
    known, times = collection.count(), list[float]()
    start = time.perf_counter()
    for first in tqdm(range(known, wanted, TOGETHER), "writing", unit_scale=TOGETHER, disable=None):
        items = world.items(first, min(TOGETHER, wanted - first))
        before = time.perf_counter()
        collection.upsert(items)
        times.append(time.perf_counter() - before)
    if times:
        yield f"| written, {TOGETHER} items at a time | {_seconds(start)} |"
        yield f"| items a second | {(wanted - known) / sum(times):,.0f} |"
        yield f"| one write of them | {_quantiles(times)} |"
    start = time.perf_counter()
    reports = collection.settle()
    yield f"| then sealed | {_seconds(start)} |"
    for (side, kind), parts in reports.items():
        for one in parts:
            recall = ", ".join(f"{setting.recall:.3f} @{setting.limit}" for setting in one.settings)
            yield f"| {side}, {kind}: {one.rows:,} rows | {one.type}, recall {recall or 'exact'} |"


def _searches(collection: Collection, world: GeneratedCollection) -> Iterator[str]:
    asked: dict[str, tuple[Pooling, Filter | None]] = {
        "one search, views as one": ("mean", None),
        "one search, each view": ("max", None),
        f"one search, one kind of {KINDS}": ("mean", parse_filter({"kind": "kind 7"})),
    }
    for name, (pool, where) in asked.items():

        def ask(number: int, pool: Pooling = pool, where: Filter | None = where) -> list[float]:
            return [hit.score for hit in collection.search(world.query(number, pool), where)]

        ask(SEARCHES)
        yield f"| {name} | {_timed(ask, SEARCHES)} |"
        shares = []
        for number in range(ASKED):
            best = [hit.score for hit in collection.search(world.query(number, pool), where, exact=True)]
            shares.append(np.mean([score >= best[-1] for score in ask(number)]))
        yield f"| its recall@10 | {np.mean(shares):.3f} |"


def _changes(collection: Collection, world: GeneratedCollection, items: int) -> Iterator[str]:
    spread = np.random.default_rng(1).permutation(items)[: 2 * CHANGES].tolist()

    def write(turn: int) -> None:
        collection.upsert(world.items(spread[turn], 1, edition=1))

    def remove(turn: int) -> None:
        collection.delete([f"item-{spread[CHANGES + turn]:07}"])

    yield f"| one item replaced | {_timed(write, CHANGES)} |"
    yield f"| one item deleted | {_timed(remove, CHANGES)} |"
    for number in spread[CHANGES:]:
        collection.upsert(world.items(number, 1))


def _timed(call: Callable[[int], object], count: int) -> str:
    times = []
    for turn in range(count):
        start = time.perf_counter()
        call(turn)
        times.append(time.perf_counter() - start)
    return _quantiles(times)


def _quantiles(times: Sequence[float]) -> str:
    middle, late = np.percentile(times, [50, 99]) * 1e3
    return f"p50 {middle:.2f} ms, p99 {late:.2f} ms"


def _seconds(start: float) -> str:
    return f"{time.perf_counter() - start:,.1f} s"
