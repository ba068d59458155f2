"""Services that share a PostgreSQL and a Milvus: how fast they take items, search, see each other's writes.

    multifold bench cluster --database postgresql://USER@HOST/NAME --milvus http://HOST:19530 --items 100000

Without the two addresses the same is measured of one service with SQLite and FAISS, for comparison. Items
have a photo and a caption, with generated features. A collection with too few items is filled first. Services
and clients run on this machine. Queries are vectors, so nothing is encoded; answers are compared with what is
nearest by the generated vectors.
"""

import argparse
import json
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from tqdm import tqdm

from app.settings import Settings
from benches.reporting import head, row, time_calls
from benches.service import load
from benches.service.running_service import RunningService, run_service
from index.cluster.contracts import MilvusAddress
from index.collection import Collection
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.client.client import Client
from multifold.errors import MultifoldError
from multifold.types import Features, Item, Observation, Side, Vector, Vectors

TOGETHER = 1000  # items of one write
QUERIES = 256
COMPARED = 100  # of them, whose recall is measured
LIMIT = 10
CHANGES = 100  # writes of one item
FITTED = 64  # items that evidence is fitted on, for its cost and not its worth
GOLDEN = (np.sqrt(5) - 1) / 2
IDLE = 0.05  # seconds of processor time in a second
PATIENCE = 120  # seconds
PARTS = "fill", "search", "write"
SEARCHES: dict[str, dict[str, Any]] = {
    "all items": {"target": "image"},
    "50 % pass": {"target": "image", "filter": {"place": {"lt": 0.5}}},
    "5 % pass": {"target": "image", "filter": {"place": {"lt": 0.05}}},
    "0.1 % pass": {"target": "image", "filter": {"place": {"lt": 0.001}}},
    "exact": {"target": "image", "exact": True},
    "evidence of both sides": {"target": "item"},
}
COLUMNS = "services", "search", "clients", "queries/s", "p50", "p95", "CPU ms of the services", "recall@10"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--items", type=int, default=10_000, help="of a photo and a caption each")
    parser.add_argument("--database", help="postgresql:// address of a database for this alone")
    parser.add_argument("--milvus", help="http:// address of a Milvus server")
    parser.add_argument("--bundle", type=Path, default=Path("bundles/furniture"))
    parser.add_argument("--data", type=Path, help="a folder to keep, default: one that is thrown away")
    parser.add_argument("--services", type=int, nargs="+", default=[1, 2], help="that share the collection")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32], help="of all services together")
    parser.add_argument("--searches", nargs="+", default=[*SEARCHES], choices=SEARCHES, metavar="NAME")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS, help="what is measured")


class ClusterBenchError(MultifoldError):
    """What was asked for cannot be measured."""


def run(args: argparse.Namespace) -> int:
    """Fill it, search it and change it, a line as soon as it is known."""
    if max(args.services) > 1 and args.database is None:
        raise ClusterBenchError("Several services share a --database; without one, ask for --services 1.")
    with tempfile.TemporaryDirectory(prefix="multifold-cluster-") as aside:
        settings = Settings(data=args.data or Path(aside), bundle=args.bundle, threads=1)
        world = PhotoWorld(open_encoder(args.bundle, 1), args.items)
        for line in measure_cluster(args, settings, world):
            tqdm.write(line)
    return 0


class PhotoWorld:
    """Items near the held-out features of an encoder, by their number, and queries."""

    def __init__(self, encoder: Encoder, count: int) -> None:
        self.encoder, self.count, self._probes = encoder, count, encoder.bundle.probes()

    def items(self, first: int, count: int) -> list[Item]:
        """Some items; the same ones come from the same place in the same number."""
        photos, captions = self._photos(first), self._near("text", [1, first], count)
        places = self._places(first, count).tolist()
        return [
            Item(
                f"item-{first + n}",
                (
                    Observation("photo", 0, photos[n], blob="0" * 64 + ".webp"),
                    Observation("caption", 0, captions[n], text=f"photo {first + n}"),
                ),
                {"number": first + n, "place": places[n]},
            )
            for n in range(count)
        ]

    @cache  # noqa: B019 (there is one for as long as the process runs)
    def queries(self) -> Vectors:
        """Vectors of captions that no item has."""
        return self.encoder.vectors(self._near("text", [2], QUERIES))

    @cache  # noqa: B019
    def truth(self, share: float) -> list[set[str]]:
        """The ids nearest to the first queries, of so many items."""
        asked, best = self.queries()[:COMPARED], [list[tuple[float, str]]() for _ in range(COMPARED)]
        for first in range(0, self.count, TOGETHER):
            count = min(TOGETHER, self.count - first)
            chosen = np.flatnonzero(self._places(first, count) < share)
            scores = asked @ self.encoder.vectors(self._photos(first)[:count])[chosen].T
            for query, some in enumerate(scores):
                nearest = np.argsort(-some)[:LIMIT]
                more = [(float(some[one]), f"item-{first + chosen[one]}") for one in nearest]
                best[query] = sorted(best[query] + more, reverse=True)[:LIMIT]
        return [{name for _, name in some} for some in best]

    def _photos(self, first: int) -> Features:
        return self._near("shape", [0, first], TOGETHER)

    def _near(self, side: Side, seed: list[int], count: int) -> Features:
        probes, rng = self._probes[side], np.random.default_rng(seed)
        noise = probes.std(axis=0) * rng.standard_normal((count, probes.shape[1]), np.float32)
        return np.asarray(probes[rng.integers(len(probes), size=count)] + noise, np.float32)

    def _places(self, first: int, count: int) -> Float64[np.ndarray, " c"]:
        """Numbers from 0 to 1, spread evenly, which filters ask for."""
        return np.asarray((np.arange(first, first + count) * GOLDEN) % 1.0, np.float64)


def measure_cluster(args: argparse.Namespace, settings: Settings, world: PhotoWorld) -> Iterator[str]:
    cluster = MilvusAddress(args.milvus) if args.milvus else None
    where = "PostgreSQL" if args.database else "SQLite", "Milvus" if cluster else "FAISS"
    sort = f"a photo and a caption, {world.encoder.dim} numbers"
    yield f"{args.items} items of {sort}; {' and '.join(where)}.\n"
    if "fill" in args.parts:
        database, probes = args.database, world.encoder.bundle.probes()
        with Collection.open(
            settings.data, world.encoder, database=database, cluster=cluster, probes=probes
        ) as collection:
            yield from _fill(collection, world)
    environment = {"MULTIFOLD_PROBE_EVERY": "0"}
    environment |= {"MULTIFOLD_DATABASE": args.database} if args.database else {}
    environment |= {"MULTIFOLD_MILVUS": args.milvus} if args.milvus else {}
    with ExitStack() as running:
        clients = running.enter_context(ProcessPoolExecutor(1, multiprocessing.get_context("spawn")))
        services = list[RunningService]()
        if "search" in args.parts:
            yield head(*COLUMNS)
        for count in sorted(args.services) if args.parts != ["fill"] else ():
            while len(services) < count:
                services.append(running.enter_context(run_service(settings, **environment)))
                _wait_until_idle(services[-1])
            if "search" in args.parts:
                yield from _searches(args, services, world, clients)
        if "write" in args.parts:
            yield from _writes(args, services, world, clients)


def _fill(collection: Collection, world: PhotoWorld) -> Iterator[str]:
    yield head("filled", "")
    present, took, cpu = collection.count(), time.perf_counter(), time.process_time()
    for first in tqdm(range(present, world.count, TOGETHER), "writing", unit_scale=TOGETHER, disable=None):
        collection.upsert(world.items(first, min(TOGETHER, world.count - first)))
    if written := collection.count() - present:
        took, cpu = time.perf_counter() - took, time.process_time() - cpu
        yield row(f"items a second, {TOGETHER:,} at a time", f"{written / took:,.0f}")
        yield row("CPU time of this process for one", f"{1e6 * cpu / written:,.0f} µs")
    start = time.perf_counter()
    reports = collection.settle()
    yield row("then the recall is measured", f"{time.perf_counter() - start:,.1f} s")
    for (side, kind), parts in reports.items():
        for one in parts:
            recall = ", ".join(f"{setting.recall:.3f} @{setting.limit}" for setting in one.settings)
            yield row(f"{side}, {kind}: {one.rows:,} rows", f"{one.type}, recall {recall or 'exact'}")
    start = time.perf_counter()
    if collection.evidence() is None:  # else a service fits it while it is measured
        collection.fit_evidence(lambda texts: world.encoder.texts(texts).features, FITTED)
        yield row("then the evidence is fitted", f"{time.perf_counter() - start:,.1f} s")
    yield ""


def _wait_until_idle(service: RunningService) -> None:
    """A service reads the texts of all items when it starts; for a while, at most."""
    for _ in range(PATIENCE):
        before = service.cpu()
        time.sleep(1.0)
        if service.cpu() - before < IDLE:
            break


def _searches(
    args: argparse.Namespace,
    services: Sequence[RunningService],
    world: PhotoWorld,
    clients: ProcessPoolExecutor,
) -> Iterator[str]:
    for name in args.searches:
        recall = _recall(services[-1], world, SEARCHES[name])
        for count in args.clients:
            yield row(
                len(services), name, count, *_loaded(args, services, world, clients, name, count), recall
            )


def _loaded(
    args: argparse.Namespace,
    services: Sequence[RunningService],
    world: PhotoWorld,
    clients: ProcessPoolExecutor,
    name: str,
    count: int,
) -> tuple[str, ...]:
    """Rate, latencies and CPU time of so many clients."""
    wires = [_wire(query, SEARCHES[name]) for query in world.queries()]
    ports, cpu = [service.port for service in services], sum(service.cpu() for service in services)
    result = clients.submit(load.run_load, "127.0.0.1", ports, wires, count, args.seconds).result()
    if result.refusals:
        raise ClusterBenchError(f"a service refused: {result.refusals[0].decode(errors='replace')}")
    if not result.latencies:
        return "0", f"over {args.seconds:g} s", "", ""
    cpu = sum(service.cpu() for service in services) - cpu
    late = (f"{1e3 * result.quantile(share):.1f} ms" for share in (0.5, 0.95))
    return f"{result.rate:.0f}", *late, f"{1e3 * cpu / len(result.latencies):.1f}"


def _wire(query: Vector, options: Mapping[str, Any]) -> bytes:
    body = json.dumps({"vector": query.tolist(), "limit": LIMIT, **options}).encode()
    return load.post_request("/v1/search", body, "application/json")


def _recall(service: RunningService, world: PhotoWorld, options: Mapping[str, Any]) -> str:
    """The share of the nearest items that are found; a search by all evidence has no such truth."""
    if options["target"] == "item":
        return "–"
    truth = world.truth(options.get("filter", {"place": {"lt": 1.0}})["place"]["lt"])
    with Client(service.url) as client:
        answers = [
            client.search(vector=query.tolist(), limit=LIMIT, **options)
            for query in world.queries()[:COMPARED]
        ]
    found = sum(len(best & {hit.id for hit in one.hits}) for best, one in zip(truth, answers, strict=True))
    return f"{found / sum(map(len, truth)):.3f}"


def _writes(
    args: argparse.Namespace,
    services: Sequence[RunningService],
    world: PhotoWorld,
    clients: ProcessPoolExecutor,
) -> Iterator[str]:
    """Single writes through the first service, and searches of the last one, which has to see them."""
    vectors = world.queries().tolist()
    with Client(services[0].url) as writer, Client(services[-1].url) as reader:

        def write(turn: int) -> None:
            writer.upsert(id=f"new-{turn % CHANGES}", texts=[f"a thing of number {turn}"])

        def search(turn: int) -> None:
            reader.search(vector=vectors[turn % len(vectors)], target="image", limit=LIMIT)

        yield "\n" + head(f"one client, {len(services)} services", "p50", "p95")
        yield row("an item with a caption is written", *_quantiles(time_calls(write, CHANGES)))
        yield row(
            "a search of the last service after a write to the first",
            *_quantiles(time_calls(search, CHANGES, write)),
        )
        yield row("a search without a write before", *_quantiles(time_calls(search, CHANGES)))
        with _repeating(write) as written:
            yield "\n" + head("while one client writes", *COLUMNS[2:-1])
            for name, count in product(("all items", "5 % pass"), args.clients):
                yield row(name, count, *_loaded(args, services[-1:], world, clients, name, count))
        yield row("items written meanwhile", written())
        writer.delete_many([f"new-{turn}" for turn in range(CHANGES)])


@contextmanager
def _repeating(act: Callable[[int], object]) -> Iterator[Callable[[], int]]:
    """Something is done again and again in the block; what is yielded tells how often."""
    over, done = threading.Event(), 0

    def repeat() -> None:
        nonlocal done
        while not over.is_set():
            act(done)
            done += 1

    with ThreadPoolExecutor(1) as thread:
        repeated = thread.submit(repeat)
        try:
            yield lambda: done
        finally:
            over.set()
        repeated.result()


def _quantiles(seconds: Sequence[float]) -> tuple[str, str]:
    middle, late = np.percentile(seconds, [50, 95]) * 1e3
    return f"{middle:.1f} ms", f"{late:.1f} ms"
