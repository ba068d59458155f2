"""Fill one embedded collection with generated items of several views and captions, and use it at that size.

    multifold bench largest --items 1000000 --dim 128 --data FOLDER

Features are generated: every item is near one of many centres, its observations near the item, and captions
are shifted from views. An existing full folder is only searched. Times are wall time.

    multifold bench largest --rows 1000000 --dim 512 --megabytes 500 --data FOLDER

This is one index without a store, with codes in memory, in processes that together may use so much memory
(a cgroup, which needs root): filled, opened cold, searched while rows arrive, killed, opened again.
"""

import argparse
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from jaxtyping import Float32
from tqdm import tqdm

from benches.index.generated_vectors import PROBES, StreamedVectors
from benches.reporting import head, quantiles, row, time_calls
from index.collection import Collection
from index.contracts import AUTO, STORED, CollectionLocation, Ids, IndexPlan
from index.engines.faiss_engine import FaissEngine
from index.engines.row_file import as_float16
from index.maintenance.stats import collect_stats
from index.plain_space import PlainSpace
from index.store.filters import Filter, parse_filter
from multifold.errors import MultifoldError
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
    parser.add_argument("--rows", type=int, help="measure one index of so many rows with codes in memory")
    parser.add_argument("--stored", choices=STORED, default=STORED[0], help="the numbers of those rows")
    parser.add_argument("--megabytes", type=int, help="of memory that --rows may use, default: no limit")


def run(args: argparse.Namespace) -> int:
    """Fill it, then open it and use it, a line as soon as it is known."""
    with tempfile.TemporaryDirectory(prefix="multifold-largest-") as aside:
        folder = args.data or Path(aside) / "collection"
        lines = measure_rows(args, folder) if args.rows else measure_largest(args, folder, Path(aside))
        for line in lines:
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


BLOCK = 8192  # rows that are generated at once
LIMIT = 10
ASKED = 256  # queries, of which the first are asked cold
COLD = 128
SHARES = (1, 2, 20, 1000)  # of so many rows a filter allows one
CLIENTS = (1, 8)
ARRIVING, PAUSE = 256, 0.25  # rows that arrive together, and seconds between
GROUP = Path("/sys/fs/cgroup/memory")


class MemoryLimitError(MultifoldError):
    """A limit of memory that cannot be set here."""


def measure_rows(args: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Fill, open, search, kill and open again, each in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    with _limited(args.megabytes) as most:
        yield f"{args.rows} rows of {args.dim} as {args.stored}, in {args.megabytes or 'all'} MB.\n"
        if not (folder / "rows").exists():
            yield from _apart(_fill_rows, args, folder)
            yield row("most memory while filling, with pages of files", most())
        _forget_pages(folder)
        yield from _apart(_use_rows, args, folder)
        yield from _apart(_open_again, args, folder)
        yield row("most memory, with pages of files", most())


def _apart(work: Callable[..., None], args: argparse.Namespace, folder: Path) -> Iterator[str]:
    """The lines of a process; it is killed, without a warning, when it sends that it may be."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, args.rows, args.dim, _plan(args), folder))
    process.start()
    theirs.close()
    try:
        while (line := ours.recv()) is not None:
            yield line
    except EOFError:
        process.join()
        raise MemoryLimitError(f"The process ended early, with {process.exitcode}: memory ran out?") from None
    process.kill()
    process.join()


def _fill_rows(told: Connection, rows: int, dim: int, plan: IndexPlan, folder: Path) -> None:
    world, queries = StreamedVectors(dim), StreamedVectors(dim).queries(0, ASKED)
    engine, begun = _engine(dim, plan, folder), time.perf_counter()
    best = {share: np.full((ASKED, LIMIT), -np.inf, np.float32) for share in SHARES}
    with engine.filling():
        for first in range(0, rows, BLOCK):
            ids = np.arange(first, min(first + BLOCK, rows))
            vectors = world.rows(first, len(ids))
            engine.add(ids, vectors)
            scores = queries @ (vectors if plan.stored == "float32" else as_float16(vectors)).T
            for share, known in best.items():
                both = np.concatenate([known, scores[:, ids % share == 0]], axis=1)
                best[share] = -np.partition(-both, LIMIT - 1)[:, :LIMIT]
    told.send(row("generated, answered exactly and written", _seconds(begun)))
    begun = time.perf_counter()
    engine.settle()
    told.send(row("then sealed", _seconds(begun)))
    engine.save(folder / "rows")
    np.savez(folder / "truth.npz", **{str(share): known.min(axis=1) for share, known in best.items()})
    for report in engine.reports():
        told.send(f"\n{report}\n")
    told.send(row("resident at most while filling", _status("VmHWM")))
    engine.close()
    told.send(None)


def _use_rows(told: Connection, rows: int, dim: int, plan: IndexPlan, folder: Path) -> None:
    engine, queries = _loaded(told, dim, plan, folder), StreamedVectors(dim).queries(0, ASKED)
    told.send(
        "\n" + head("allowed", "clients", "queries/s", "p50", "p95", "recall@10", "rows, kB read a query")
    )
    told.send(_asked("all, cold", engine, queries[:COLD], 1, 1, folder))
    told.send(_asked("all, once more", engine, queries[:COLD], 1, 1, folder))
    for arriving in (False, True):
        if arriving:  # until the kill
            threading.Thread(target=_feed, args=(engine, StreamedVectors(dim), rows), daemon=True).start()
        for share in SHARES:
            for clients in CLIENTS:
                name = f"{1 / share:.1%}{', rows arrive' if arriving else ''}"
                told.send(_asked(name, engine, queries, share, clients, folder))
        told.send(row("resident, without files", _status("RssAnon")))
    told.send(row("rows that arrived", engine.count() - rows))
    told.send(None)
    time.sleep(60)  # the kill comes first


def _open_again(told: Connection, _: int, dim: int, plan: IndexPlan, folder: Path) -> None:
    told.send("\nAfter a kill:\n")
    engine = _loaded(told, dim, plan, folder)
    told.send(_asked("all", engine, StreamedVectors(dim).queries(0, ASKED), 1, 1, folder))
    told.send(None)


def _feed(engine: FaissEngine, world: StreamedVectors, first: int) -> None:
    while True:
        time.sleep(PAUSE)
        engine.add(np.arange(first, first + ARRIVING), world.rows(first, ARRIVING))
        first += ARRIVING


def _loaded(told: Connection, dim: int, plan: IndexPlan, folder: Path) -> FaissEngine:
    engine, begun = _engine(dim, plan, folder), time.perf_counter()
    engine.load(folder / "rows")
    told.send(row("opened", _seconds(begun)))
    told.send(row("resident, without files", _status("RssAnon")))
    return engine


def _plan(args: argparse.Namespace) -> IndexPlan:
    return IndexPlan(args.type, "cpu", memory="codes", stored=args.stored)


def _engine(dim: int, plan: IndexPlan, folder: Path) -> FaissEngine:
    probes = StreamedVectors(dim).queries(1, PROBES)
    return FaissEngine(dim, "ip", plan, ask=lambda count: probes[:count], home=folder)


def _asked(name: str, engine: FaissEngine, queries: Features, share: int, clients: int, folder: Path) -> str:
    """One line: every client asks for its part of the queries, one after the other."""
    least = np.load(folder / "truth.npz")[str(share)][: len(queries), None]
    allowed: Ids | None = None if share == 1 else np.arange(0, engine.count(), share)
    if allowed is not None:
        allowed.flags.writeable = False  # as in a collection
    scores, times = np.empty((len(queries), LIMIT), np.float32), np.empty(len(queries))

    def ask(client: int) -> None:
        for place in range(client, len(queries), clients):
            start = time.perf_counter()
            scores[place] = engine.search(queries[place : place + 1], LIMIT, allowed)[0][0]
            times[place] = time.perf_counter() - start

    before = engine.read_count.rows, engine.read_count.bytes
    begun = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(ask, range(clients)))
    rate = len(queries) / (time.perf_counter() - begun)
    read = np.subtract((engine.read_count.rows, engine.read_count.bytes), before) / len(queries)
    middle, late = np.percentile(times, [50, 95]) * 1e3
    recall = np.mean(scores >= least - 1e-6)
    figures = f"{rate:,.0f}", f"{middle:.2f} ms", f"{late:.2f} ms", f"{recall:.3f}"
    return row(name, clients, *figures, f"{read[0]:,.0f}, {read[1] / 1e3:,.0f}")


def _status(name: str) -> str:
    """A figure of this process, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (size,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return f"{int(size) / 1024:,.0f} MB"


def _told_megabytes(file: Path) -> str:
    return f"{int(file.read_text(encoding='ascii')) / (1 << 20):,.0f} MB"


def _forget_pages(folder: Path) -> None:
    """Nothing of these files is left in memory."""
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def _limited(megabytes: int | None) -> Iterator[Callable[[], str]]:
    """Processes that are started in the block may use so much memory together, with their pages of files.

    What is yielded tells the most that they used.
    """
    if megabytes is None:
        yield lambda: "not counted"
        return
    own, limit = (GROUP / f"multifold-{os.getpid()}", megabytes << 20)
    try:
        own.mkdir()
        (own / "memory.limit_in_bytes").write_text(str(limit), encoding="ascii")
        (own / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    except OSError as error:
        raise MemoryLimitError(f"{own} cannot be made: it needs root and cgroups of version 1.") from error
    try:
        yield lambda: _told_megabytes(own / "memory.max_usage_in_bytes")
    finally:
        for process in (own / "cgroup.procs").read_text(encoding="ascii").split():
            (GROUP / "cgroup.procs").write_text(process, encoding="ascii")
        own.rmdir()
