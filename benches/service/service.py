"""The work of `multifold bench service`."""

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from app.encoding.observations import open_drawing_encoder
from app.queries.encoding import NO_FEATURE, EncodedPart
from app.queries.parts import ImageQueryPart, TextQueryPart
from app.search.search import make_query
from app.settings import Settings
from benches.reporting import head, row
from benches.service import hungry, load
from benches.service.running_service import RunningService, run_service
from benches.service.sample_collection import BenchQuery, fill_collection, photo_queries, text_queries
from index.collection import Collection
from index.search.model import UNFITTED, EvidenceModel
from index.search.query import Query
from index.store import browse
from multifold.bundle.encoder import Encoder
from multifold.bundle.preprocess import decode, pixels
from multifold.errors import MultifoldError
from multifold.types import Target, Vector, Vectors
from multifold.wire.search import SearchOptions


def run(args: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=args.data or Path(folder), bundle=args.bundle, threads=1)
        encoder = open_drawing_encoder(settings.bundle, settings.threads)
        fill_collection(settings.data, encoder, args.items, args.views)
        if args.hungry is not None:
            hungry.measure(settings, args.hungry, args.seconds)
            return 0
        with (
            run_service(settings, MULTIFOLD_CACHE="1") as service,
            Collection.open(settings.data, encoder, read_only=True) as collection,
            ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as clients,
        ):
            views = collection.read(browse.count_observations)["view"]
            print(f"{collection.count()} items, {views} views; ", end="")
            print(f"{args.turns} turns of {args.seconds:g} s\n")
            print(head(*COLUMNS))
            served = ServedClients(service, clients)
            for kind, target in product(args.kinds, args.targets):
                bare = BareLibrary(encoder, collection, settings, target)
                queries = text_queries(target) if kind == "text" else photo_queries(encoder, target)
                for count in args.clients:
                    turns = [
                        (bare.turn(queries, count, args.seconds), served.turn(queries, count, args.seconds))
                        for _ in range(args.turns)
                    ]
                    print(_row(f"{kind} → {target}", count, turns), flush=True)
    return 0


COLUMNS = (
    *("query", "clients", "bare, queries/s", "service, queries/s", "ratio"),
    *("bare CPU ms", "service CPU ms", "client CPU ms", "bare ms", "service p50 ms", "p95 ms"),
)


@dataclass(frozen=True)
class ServiceTurn:
    """One turn of either: queries a second, and milliseconds of a query."""

    rate: float
    cpu: float
    p50: float
    p95: float
    client: float = 0.0


@dataclass(frozen=True)
class BareLibrary:
    encoder: Encoder
    collection: Collection
    settings: Settings
    target: Target

    @cached_property
    def evidence(self) -> EvidenceModel:
        return self.collection.evidence() or UNFITTED

    def turn(self, queries: Sequence[BenchQuery], count: int, seconds: float) -> ServiceTurn:
        """Batches of so many, one after the other."""
        times = []
        done = 0
        start = time.perf_counter()
        cpu = time.process_time()
        while (since := time.perf_counter()) < start + seconds:
            batch = [queries[(done + place) % len(queries)].content for place in range(count)]
            self.collection.search_many(list(map(self._query, batch, self._encode(batch))))
            times.append(1e3 * (time.perf_counter() - since))
            done += count
        took, cpu, middle = time.perf_counter() - start, time.process_time() - cpu, statistics.median(times)
        return ServiceTurn(done / took, 1e3 * cpu / done, middle, middle)

    def _query(self, content: str | bytes, vector: Vector) -> Query:
        """What the service makes of the same query."""
        part = TextQueryPart(content) if isinstance(content, str) else ImageQueryPart(content)
        encoded = EncodedPart(NO_FEATURE, vector, own={part.side: vector})
        options = SearchOptions(target=self.target)
        return make_query(((part, 1.0),), [encoded], options, None, self.evidence, self.settings)

    def _encode(self, queries: Sequence[str | bytes]) -> Vectors:
        if texts := [query for query in queries if isinstance(query, str)]:
            return self.encoder.vectors(self.encoder.texts(texts).features)
        spec = self.encoder.bundle.image
        pictures = [pixels(decode(query), spec) for query in queries if isinstance(query, bytes)]
        return self.encoder.vectors(self.encoder.pixels(np.stack(pictures)))


@dataclass(frozen=True)
class ServedClients:
    service: RunningService
    clients: ProcessPoolExecutor

    def turn(self, queries: Sequence[BenchQuery], count: int, seconds: float) -> ServiceTurn:
        """So many clients, each sending the next request as soon as it is answered."""
        cpu = self.service.cpu()
        requests = [query.wire for query in queries]
        host = "127.0.0.1"
        port = self.service.port
        result = self.clients.submit(load.run_load, host, port, requests, count, seconds).result()
        if result.refusals:
            raise MultifoldError(f"the service refused: {result.refusals[0].decode(errors='replace')}")
        if not result.latencies:
            raise MultifoldError(f"nothing was answered within {seconds:g} s; give it more --seconds")
        each = 1e3 / len(result.latencies)
        p50, p95 = (1e3 * result.quantile(share) for share in (0.5, 0.95))
        return ServiceTurn(result.rate, each * (self.service.cpu() - cpu), p50, p95, each * result.cpu)


def _row(kind: str, count: int, turns: Sequence[tuple[ServiceTurn, ServiceTurn]]) -> str:
    def middle(which: int, name: str) -> float:
        return float(statistics.median(getattr(turn[which], name) for turn in turns))

    ratio = statistics.median(served.rate / bare.rate for bare, served in turns)
    rates = f"{middle(0, 'rate'):.0f}", f"{middle(1, 'rate'):.0f}", f"{ratio:.2f}"
    fields = ((0, "cpu"), (1, "cpu"), (1, "client"), (0, "p50"), (1, "p50"), (1, "p95"))
    return row(kind, count, *rates, *(f"{middle(which, name):.2f}" for which, name in fields))
