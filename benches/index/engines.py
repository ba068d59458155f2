"""The engines that are compared: ours, the same FAISS index bare, and those of other projects."""

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int64

from benches.index.generated_vectors import VectorSet
from benches.race.libraries import LINKS, EmbeddedLibrary, Hnswlib, MilvusLite, Usearch, folder_bytes
from index.contracts import IndexPlan
from index.engines.faiss_engine import FaissEngine
from index.engines.faiss_index import search_effort
from index.engines.faiss_library import faiss
from multifold.types import Metric, Vectors

Thresholds: TypeAlias = Float32[np.ndarray, "q 1"]  # what the true last row scores
Places: TypeAlias = Int64[np.ndarray, "q k"]
Clock: TypeAlias = Callable[[], float]
PIECE = 4096  # rows in one call
APART = 5  # batches between those of two engines


@dataclass(frozen=True)
class ComparedEngine:
    """One way to search, and the cost of building it."""

    name: str
    search: Callable[[Vectors, int], Places]
    build_seconds: float = 0.0
    bytes_per_row: float = 0.0
    set_effort: Callable[[int], None] | None = None  # the width of its searches, where it has one
    clock: Clock = time.thread_time  # process_time where it has threads of its own
    effort: int = 0

    def prepare(self) -> None:
        if self.set_effort is not None:
            self.set_effort(self.effort)

    def tuned(self, vectors: VectorSet, truth: Thresholds, limit: int, recall: float) -> "ComparedEngine":
        """The engine with the least effort that reaches the recall."""
        effort = limit
        while self.set_effort is not None and effort < len(vectors.rows):
            self.set_effort(effort)
            if measure_recall(vectors, self.search(vectors.queries, limit), truth) >= recall:
                break
            effort = int(effort * 1.5)
        return replace(self, effort=effort)


def time_in_turns(
    engines: Sequence[ComparedEngine], queries: Vectors, limit: int, batch: int, rounds: int
) -> Float64[np.ndarray, " engines calls"]:
    """Seconds of CPU time a query of each engine in each call; call by call they take turns.

    In each turn the engines search for different queries, so that none finds rows in the cache that another
    fetched, and for others just before, so that none pays for what another left there.
    """

    def some(place: int) -> Vectors:
        start = place * batch % max(1, len(queries) - batch + 1)
        return queries[start : start + batch]

    faiss.omp_set_num_threads(1)
    times = np.empty((len(engines), rounds))
    for turn in range(rounds):
        for place in range(len(engines)) if turn % 2 else reversed(range(len(engines))):
            engine, own = engines[place], turn + APART * place
            engine.prepare()
            engine.search(some(own + len(queries) // 2), limit)
            start = engine.clock()
            engine.search(some(own), limit)
            times[place, turn] = (engine.clock() - start) / len(some(own))
    return times


def measure_recall(vectors: VectorSet, answer: Places, truth: Thresholds) -> float:
    """The share of the answer that scores as much as the true last row (inner product)."""
    scores = np.einsum("qkd,qd->qk", vectors.rows[answer], vectors.queries)
    return float(np.mean(scores >= truth - 1e-6))


def build_engine(vectors: VectorSet, type: str, recall: float, metric: Metric = "ip") -> FaissEngine:  # noqa: A002
    """Our engine over all rows, sealed."""
    count, dim = vectors.rows.shape
    plan = IndexPlan(type, "cpu", recall, seal_at=count, flat_below=0)
    engine = FaissEngine(dim, metric, plan, ask=lambda _: vectors.probes)
    engine.add(np.arange(count), vectors.rows)
    engine.settle()
    return engine


def our_engine(engine: FaissEngine) -> ComparedEngine:
    (report,) = engine.reports()
    cost = report.build_seconds, report.bytes_per_row
    return ComparedEngine(f"ours, {report.type}", lambda q, k: engine.search(q, k)[1], *cost)


def bare_faiss(engine: FaissEngine, vectors: VectorSet) -> ComparedEngine | None:
    """The FAISS index that the engine built, with FAISS's own refinement at the same effort."""
    ann, (report,) = engine.parts[0].ann, engine.reports()
    if ann is None:
        return None
    rows = ann.reduction.gallery(vectors.rows)
    refined = faiss.IndexRefineFlat(ann.index, faiss.swig_ptr(rows))

    def search(queries: Vectors, limit: int) -> Places:
        setting = ann.setting(limit)
        inner = search_effort(ann.index)[2](setting.effort, setting.candidates)
        both = faiss.IndexRefineSearchParameters(
            k_factor=setting.candidates / limit, **({} if inner is None else {"base_index_params": inner})
        )
        return np.asarray(refined.search(queries, limit, params=both)[1])

    return ComparedEngine(f"bare, {report.type},RFlat", search, report.build_seconds, report.bytes_per_row)


@contextmanager
def other_engines(vectors: VectorSet, names: list[str]) -> Iterator[list[ComparedEngine]]:
    """Those of the named engines that are installed, filled with the rows."""
    with ExitStack() as stack:
        there = [name for name in names if importlib.util.find_spec(PACKAGES[name]) is not None]
        yield [stack.enter_context(MAKERS[name](vectors.rows)) for name in there]


def _fill(rows: Vectors, insert: Callable[[int, Vectors], object], clock: Clock = time.thread_time) -> float:
    """Seconds to insert all rows, a piece at a time."""
    start = clock()
    for first in range(0, len(rows), PIECE):
        insert(first, rows[first : first + PIECE])
    return clock() - start


@contextmanager
def _library(name: str, kind: type[EmbeddedLibrary], rows: Vectors) -> Iterator[ComparedEngine]:
    """A library of the race, filled; nothing is filtered by here."""
    clock = time.process_time if kind is MilvusLite else time.thread_time
    with tempfile.TemporaryDirectory() as folder:
        library = kind(Path(folder), rows.shape[1])

        def insert(first: int, some: Vectors) -> None:
            library.add(np.arange(first, first + len(some)), some, np.zeros(len(some), np.int64))

        seconds, start = _fill(rows, insert, clock), clock()
        library.build()
        seconds += clock() - start
        library.save()
        size = folder_bytes(Path(folder)) / len(rows)
        yield ComparedEngine(name, library.search, seconds, size, library.set_effort, clock)
        library.close()


@contextmanager
def qdrant(rows: Vectors) -> Iterator[ComparedEngine]:
    """The local engine of qdrant-client: brute force in numpy."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    client.create_collection("rows", models.VectorParams(size=rows.shape[1], distance=models.Distance.DOT))

    def insert(first: int, some: Vectors) -> None:
        places = list(range(first, first + len(some)))
        client.upsert("rows", models.Batch(ids=places, vectors=some.tolist()))

    def search(queries: Vectors, limit: int) -> Places:
        requests = [models.QueryRequest(query=query.tolist(), limit=limit) for query in queries]
        found = client.query_batch_points("rows", requests)
        return np.array([[point.id for point in one.points] for one in found], np.int64)

    yield ComparedEngine("qdrant-client, local", search, _fill(rows, insert), 4.0 * rows.shape[1])
    client.close()


PACKAGES = {"usearch": "usearch", "hnswlib": "hnswlib", "qdrant": "qdrant_client", "milvus": "milvus_lite"}
MAKERS: dict[str, Callable[[Vectors], AbstractContextManager[ComparedEngine]]] = {
    "usearch": partial(_library, f"usearch, {LINKS} links, float32", Usearch),
    "hnswlib": partial(_library, f"hnswlib, M {LINKS}, float32", Hnswlib),
    "qdrant": qdrant,
    "milvus": partial(_library, "milvus-lite, HNSW", MilvusLite),
}
