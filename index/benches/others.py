"""Other people's engines over the same rows; each runs where its package is installed."""

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from index.benches.data import Scene
from index.benches.racers import Racer, Search, Thresholds, recall_of
from multifold.types import Vectors

LINKS = 32  # of a row in a graph
BUILDING = 128  # candidates for the links of a row, in every graph
PIECE = 4096  # rows in one call

Answer = Int64[np.ndarray, "q k"]


@dataclass(frozen=True)
class Other:
    """An engine of somebody else; `effort` sets how hard it looks, where it can look less hard."""

    name: str
    search: Search
    build_seconds: float
    bytes_per_row: float
    effort: Callable[[int], None] | None = None
    clock: Callable[[], float] = time.thread_time

    def racer(self, scene: Scene, truth: Thresholds, limit: int, recall: float) -> Racer:
        """The engine with the least effort that reaches the recall."""
        effort = limit
        while self.effort is not None and effort < len(scene.rows):
            self.effort(effort)
            if recall_of(scene, self.search(scene.queries, limit), truth) >= recall:
                break
            effort = int(effort * 1.5)
        prepare = (lambda: None) if self.effort is None else partial(self.effort, effort)
        return Racer(self.name, self.search, self.build_seconds, self.bytes_per_row, prepare, self.clock)


@contextmanager
def others(scene: Scene, names: list[str]) -> Iterator[list[Other]]:
    """Those that are asked for and installed, filled with the rows."""
    with ExitStack() as stack:
        there = [name for name in names if importlib.util.find_spec(PACKAGES[name]) is not None]
        yield [stack.enter_context(MAKERS[name](scene)) for name in there]


@contextmanager
def usearch(scene: Scene) -> Iterator[Other]:
    """usearch's graph."""
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
    yield Other(f"usearch, {LINKS} links, float32", search, seconds, size, effort)


@contextmanager
def hnswlib(scene: Scene) -> Iterator[Other]:
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
    yield Other(
        f"hnswlib, M {LINKS}, float32",
        lambda queries, limit: np.asarray(index.knn_query(queries, limit, num_threads=1)[0], np.int64),
        seconds,
        size,
        index.set_ef,
    )


@contextmanager
def qdrant(scene: Scene) -> Iterator[Other]:
    """The local engine of qdrant-client: every row is looked at, in numpy."""
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

    yield Other("qdrant-client, local", search, seconds, 4.0 * dim)
    client.close()


@contextmanager
def milvus(scene: Scene) -> Iterator[Other]:
    """milvus-lite, asked for its HNSW index; what it makes of that is its own affair."""
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
        yield Other("milvus-lite, HNSW", search, seconds, size / count, effort, time.process_time)
        client.close()


PACKAGES = {"usearch": "usearch", "hnswlib": "hnswlib", "qdrant": "qdrant_client", "milvus": "milvus_lite"}
MAKERS = {"usearch": usearch, "hnswlib": hnswlib, "qdrant": qdrant, "milvus": milvus}
