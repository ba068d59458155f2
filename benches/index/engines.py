"""The engines that are compared: ours, the same FAISS index bare, and those of other projects."""

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Int64

from benches.index.generated_vectors import VectorSet
from index.contracts import IndexPlan
from index.engines.faiss_engine import FaissEngine
from index.engines.faiss_index import search_parameters
from index.engines.faiss_library import faiss
from multifold.types import Metric, Vectors

Thresholds: TypeAlias = Float32[np.ndarray, "q 1"]  # what the true last row scores
Search: TypeAlias = Callable[[Vectors, int], Int64[np.ndarray, "q k"]]


@dataclass(frozen=True)
class ComparedEngine:
    """One way to search, and the cost of building it."""

    name: str
    search: Search
    build_seconds: float
    bytes_per_row: float
    prepare: Callable[[], None] = lambda: None  # before its turn
    clock: Callable[[], float] = time.thread_time  # process_time where it has threads of its own


def build_engine(scene: VectorSet, type: str, recall: float, metric: Metric = "ip") -> FaissEngine:  # noqa: A002
    """Our engine over all rows, sealed."""
    count, dim = scene.rows.shape
    plan = IndexPlan(type, "cpu", recall, seal_at=count, flat_below=0)
    engine = FaissEngine(dim, metric, plan, ask=lambda _: scene.probes)
    engine.add(np.arange(count), scene.rows)
    engine.settle()
    return engine


def our_engine(engine: FaissEngine) -> ComparedEngine:
    (report,) = engine.reports()
    return ComparedEngine(
        f"ours, {report.type}",
        lambda q, k: engine.search(q, k)[1],
        report.build_seconds,
        report.bytes_per_row,
    )


def bare_faiss(engine: FaissEngine, scene: VectorSet) -> ComparedEngine | None:
    """The FAISS index that the engine built, with FAISS's own refinement at the same effort."""
    ann, (report,) = engine.parts[0].ann, engine.reports()
    if ann is None:
        return None
    rows = ann.reduction.gallery(scene.rows)
    refined = faiss.IndexRefineFlat(ann.index, faiss.swig_ptr(rows))

    def search(queries: Vectors, limit: int) -> Int64[np.ndarray, "q k"]:
        setting = ann.setting(limit)
        inner = search_parameters(ann.index)(setting.effort, setting.candidates)
        both = faiss.IndexRefineSearchParameters(
            k_factor=setting.candidates / limit, **({} if inner is None else {"base_index_params": inner})
        )
        found: Int64[np.ndarray, "q k"] = refined.search(queries, limit, params=both)[1]
        return found

    return ComparedEngine(f"bare, {report.type},RFlat", search, report.build_seconds, report.bytes_per_row)


def measure_recall(scene: VectorSet, answer: Int64[np.ndarray, "q k"], truth: Thresholds) -> float:
    """The share of the answer that scores as much as the true last row (inner product)."""
    scores = np.einsum("qkd,qd->qk", scene.rows[answer], scene.queries)
    return float(np.mean(scores >= truth - 1e-6))


LINKS = 32  # of a row in a graph
BUILDING = 128  # candidates for the links of a row, in every graph
PIECE = 4096  # rows in one call

Answer = Int64[np.ndarray, "q k"]


@dataclass(frozen=True)
class OtherEngine:
    """An engine of another project; `effort` sets its search width, where it has one."""

    name: str
    search: Search
    build_seconds: float
    bytes_per_row: float
    effort: Callable[[int], None] | None = None
    clock: Callable[[], float] = time.thread_time

    def racer(self, scene: VectorSet, truth: Thresholds, limit: int, recall: float) -> ComparedEngine:
        """The engine with the least effort that reaches the recall."""
        effort = limit
        while self.effort is not None and effort < len(scene.rows):
            self.effort(effort)
            if measure_recall(scene, self.search(scene.queries, limit), truth) >= recall:
                break
            effort = int(effort * 1.5)
        prepare = (lambda: None) if self.effort is None else partial(self.effort, effort)
        return ComparedEngine(
            self.name, self.search, self.build_seconds, self.bytes_per_row, prepare, self.clock
        )


@contextmanager
def other_engines(scene: VectorSet, names: list[str]) -> Iterator[list[OtherEngine]]:
    """Those of the named engines that are installed, filled with the rows."""
    with ExitStack() as stack:
        there = [name for name in names if importlib.util.find_spec(PACKAGES[name]) is not None]
        yield [stack.enter_context(MAKERS[name](scene)) for name in there]


@contextmanager
def usearch(scene: VectorSet) -> Iterator[OtherEngine]:
    from usearch.index import Index

    index = Index(
        ndim=scene.rows.shape[1], metric="ip", dtype="f32", connectivity=LINKS, expansion_add=BUILDING
    )
    start = time.thread_time()
    index.add(np.arange(len(scene.rows)), scene.rows, threads=1)
    seconds = time.thread_time() - start

    def search(queries: Vectors, limit: int) -> Answer:
        keys = index.search(queries, limit, threads=1).keys
        return np.asarray(keys, np.int64).reshape(len(queries), -1)

    def effort(width: int) -> None:
        index.expansion_search = width

    size = index.memory_usage / len(scene.rows)
    yield OtherEngine(f"usearch, {LINKS} links, float32", search, seconds, size, effort)


@contextmanager
def hnswlib(scene: VectorSet) -> Iterator[OtherEngine]:
    """hnswlib's graph; its M counts half the links of the lowest layer, as FAISS's does."""
    import hnswlib as library

    count, dim = scene.rows.shape
    index = library.Index(space="ip", dim=dim)
    index.init_index(max_elements=count, ef_construction=BUILDING, M=LINKS)
    index.set_num_threads(1)
    start = time.thread_time()
    index.add_items(scene.rows, np.arange(count), num_threads=1)
    seconds = time.thread_time() - start
    size = index.index_file_size() / count
    yield OtherEngine(
        f"hnswlib, M {LINKS}, float32",
        lambda queries, limit: np.asarray(index.knn_query(queries, limit, num_threads=1)[0], np.int64),
        seconds,
        size,
        index.set_ef,
    )


@contextmanager
def qdrant(scene: VectorSet) -> Iterator[OtherEngine]:
    """The local engine of qdrant-client: brute force in numpy."""
    from qdrant_client import QdrantClient, models

    count, dim = scene.rows.shape
    client = QdrantClient(":memory:")
    client.create_collection("rows", models.VectorParams(size=dim, distance=models.Distance.DOT))
    start = time.thread_time()
    for begin in range(0, count, PIECE):
        some = scene.rows[begin : begin + PIECE]
        places = list(range(begin, begin + len(some)))
        client.upsert("rows", models.Batch(ids=places, vectors=some.tolist()))
    seconds = time.thread_time() - start

    def search(queries: Vectors, limit: int) -> Answer:
        asked = [models.QueryRequest(query=query.tolist(), limit=limit) for query in queries]
        found = client.query_batch_points("rows", asked)
        return np.array([[point.id for point in one.points] for one in found], np.int64)

    yield OtherEngine("qdrant-client, local", search, seconds, 4.0 * dim)
    client.close()


@contextmanager
def milvus(scene: VectorSet) -> Iterator[OtherEngine]:
    """milvus-lite, asked for its HNSW index, whatever it makes of that."""
    from pymilvus import DataType, MilvusClient

    count, dim = scene.rows.shape
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.db"
        client = MilvusClient(str(path))
        schema = client.create_schema()
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
        index = client.prepare_index_params()
        built = {"M": LINKS, "efConstruction": BUILDING}
        index.add_index("vector", index_type="HNSW", metric_type="IP", params=built)
        start = time.process_time()
        client.create_collection("rows", schema=schema, index_params=index)
        for begin in range(0, count, PIECE):
            some = scene.rows[begin : begin + PIECE]
            client.insert("rows", [{"id": begin + n, "vector": row} for n, row in enumerate(some)])
        client.load_collection("rows")
        seconds, width = time.process_time() - start, [LINKS]

        def search(queries: Vectors, limit: int) -> Answer:
            asked = {"params": {"ef": max(limit, width[0])}}
            found = client.search("rows", list(queries), limit=limit, search_params=asked)
            return np.array([[hit["id"] for hit in hits] for hits in found], np.int64)

        def effort(wider: int) -> None:
            width[0] = wider

        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        yield OtherEngine("milvus-lite, HNSW", search, seconds, size / count, effort, time.process_time)
        client.close()


PACKAGES = {"usearch": "usearch", "hnswlib": "hnswlib", "qdrant": "qdrant_client", "milvus": "milvus_lite"}
MAKERS = {"usearch": usearch, "hnswlib": hnswlib, "qdrant": qdrant, "milvus": milvus}
