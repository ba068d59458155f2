"""Embedded libraries of other projects, each with its graph or table of rows that have a number to filter by.

Graphs have the same links and the same width while they are built; each library gets one thread, where it can
be told.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from jaxtyping import Int64

from index.contracts import Ids
from multifold.types import Vector, Vectors

Places: TypeAlias = Int64[np.ndarray, "q k"]
LINKS, BUILDING = 32, 128  # of a row in a graph, and candidates for them
REFINED = 4  # times as many candidates of compressed rows are compared exactly


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


class EmbeddedLibrary:
    """Rows with an id and a number; finds the nearest to a query, perhaps among low numbers only."""

    package: ClassVar[str]
    title: ClassVar[str]
    filters: ClassVar[bool] = True
    effort: ClassVar[bool] = True  # whether the width of a search can be set
    threads: ClassVar[bool] = (
        False  # of its own, so that only the time of the whole process tells what it took
    )

    def __init__(self, folder: Path, dim: int) -> None:
        self.folder, self.dim = folder, dim

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        """Add new rows."""
        raise NotImplementedError

    def replace(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        """Put others in the place of rows that are there."""
        raise NotImplementedError

    def search(self, queries: Vectors, limit: int, below: int | None = None) -> Places:
        """The ids nearest by inner product, padded with -1; `below`: only rows whose number is lower."""
        found = np.full((len(queries), limit), -1, np.int64)
        for row, query in zip(found, queries, strict=True):
            ids = self.nearest(query, limit, below)
            row[: len(ids)] = ids
        return found

    def nearest(self, query: Vector, limit: int, below: int | None) -> Sequence[int]:
        """The same for one query; for libraries that take no more at once."""
        raise NotImplementedError

    def build(self) -> None:
        """What is left to do once all rows are there."""

    def aim(self, recall: float) -> None:
        """For libraries that are told what recall is wanted."""

    def set_effort(self, width: int) -> None:
        self.width = width

    def save(self) -> None:
        """Write to the folder what is not there yet."""

    def close(self) -> None:
        """Release everything."""


class Usearch(EmbeddedLibrary):
    package, title, filters = "usearch", "usearch", False

    def __init__(self, folder: Path, dim: int) -> None:
        from usearch.index import Index

        super().__init__(folder, dim)
        self._index = Index(ndim=dim, metric="ip", dtype="f32", connectivity=LINKS, expansion_add=BUILDING)

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:  # noqa: ARG002
        self._index.add(ids, rows, threads=1)

    def replace(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._index.remove(ids)
        self.add(ids, rows, numbers)

    def set_effort(self, width: int) -> None:
        self._index.expansion_search = width

    def search(self, queries: Vectors, limit: int, below: int | None = None) -> Places:  # noqa: ARG002
        keys = self._index.search(queries, limit, threads=1).keys
        return np.asarray(keys, np.int64).reshape(len(queries), -1)

    def save(self) -> None:
        self._index.save(str(self.folder / "rows.usearch"))


class Hnswlib(EmbeddedLibrary):
    """hnswlib; its M counts half the links of the lowest layer. A filter is a function of Python."""

    package, title = "hnswlib", "hnswlib"

    def __init__(self, folder: Path, dim: int) -> None:
        import hnswlib

        super().__init__(folder, dim)
        self._index, self._numbers = hnswlib.Index(space="ip", dim=dim), np.empty(0, np.int64)
        self._index.init_index(max_elements=1024, ef_construction=BUILDING, M=LINKS)
        self._index.set_num_threads(1)

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._numbers = np.concatenate([self._numbers, numbers])
        self._index.resize_index(max(1024, len(self._numbers)))
        self._index.add_items(rows, ids)

    def replace(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._numbers[ids] = numbers
        self._index.add_items(rows, ids)

    def set_effort(self, width: int) -> None:
        self._index.set_ef(width)

    def search(self, queries: Vectors, limit: int, below: int | None = None) -> Places:
        options: dict[str, Any] = {}
        if below is not None:
            numbers = self._numbers
            options["filter"] = lambda one: bool(numbers[one] < below)
        try:
            return np.asarray(self._index.knn_query(queries, limit, num_threads=1, **options)[0], np.int64)
        except RuntimeError:  # fewer than so many were found for one of them
            return np.full((len(queries), limit), -1, np.int64)

    def save(self) -> None:
        self._index.save_index(str(self.folder / "rows.hnswlib"))


class ScalableVectorSearch(EmbeddedLibrary):
    """Intel's svs: a Vamana graph, whose rows may change."""

    package, title, filters = "svs", "scalable-vs", False

    def __init__(self, folder: Path, dim: int) -> None:
        super().__init__(folder, dim)
        self._first: list[tuple[Ids, Vectors]] = []

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:  # noqa: ARG002
        self._first.append((ids, rows))

    def build(self) -> None:
        import svs

        ids, rows = (np.concatenate(parts) for parts in zip(*self._first, strict=True))
        self._first.clear()
        how = svs.VamanaBuildParameters(alpha=0.95, graph_max_degree=2 * LINKS, window_size=BUILDING)
        self._index = svs.DynamicVamana.build(how, rows, ids.astype(np.uint64), svs.MIP, 1)

    def replace(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:  # noqa: ARG002
        self._index.delete(ids.astype(np.uint64))
        self._index.consolidate()
        self._index.compact(1024)
        self._index.add(rows, ids.astype(np.uint64))

    def set_effort(self, width: int) -> None:
        self._index.search_window_size = width

    def search(self, queries: Vectors, limit: int, below: int | None = None) -> Places:  # noqa: ARG002
        return np.asarray(self._index.search(queries, limit)[0], np.int64)

    def save(self) -> None:
        self._index.save(*(str(self.folder / part) for part in ("config", "graph", "data")))


class QdrantEdge(EmbeddedLibrary):
    package, title = "qdrant_edge", "qdrant-edge"

    def __init__(self, folder: Path, dim: int) -> None:
        import qdrant_edge as library

        super().__init__(folder, dim)
        self._library = library
        graph = library.HnswIndexConfig(LINKS, BUILDING, full_scan_threshold=1, max_indexing_threads=1)
        config = library.EdgeConfig(
            library.EdgeVectorParams(dim, library.Distance.Dot, hnsw_config=graph),
            optimizers=library.EdgeOptimizersConfig(indexing_threshold=1, default_segment_number=1),
            max_search_threads=1,
        )
        self._shard = library.EdgeShard.create(str(folder), config)
        made = library.UpdateOperation.create_field_index("number", library.PayloadSchemaType.Integer)
        self._shard.update(made)

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        each = zip(ids.tolist(), rows.tolist(), numbers.tolist(), strict=True)
        points = [self._library.Point(one, row, {"number": number}) for one, row, number in each]
        self._shard.update(self._library.UpdateOperation.upsert_points(points))

    replace = add

    def build(self) -> None:
        self._shard.optimize()

    def nearest(self, query: Vector, limit: int, below: int | None) -> list[int]:
        library, where = self._library, None
        if below is not None:
            low = library.FieldCondition("number", range=library.RangeFloat(lt=float(below)))
            where = library.Filter(must=[low])
        nearest, params = library.Query.Nearest(query.tolist()), library.SearchParams(hnsw_ef=self.width)
        request = library.QueryRequest(limit, query=nearest, filter=where, params=params)
        return [point.id for point in self._shard.query(request)]

    def save(self) -> None:
        self._shard.flush()

    def close(self) -> None:
        self._shard.close()


class Lancedb(EmbeddedLibrary):
    """lancedb: cells of graphs over rows of 8 bits a number, and a few times the limit compared exactly."""

    package, title = "lancedb", "lancedb"

    def __init__(self, folder: Path, dim: int) -> None:
        import lancedb

        super().__init__(folder, dim)
        self._database = lancedb.connect(str(folder))
        self._table: Any = None

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        if self._table is None:
            self._table = self._database.create_table("rows", self._rows(ids, rows, numbers))
        else:
            self._table.add(self._rows(ids, rows, numbers))

    def replace(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        merged = self._table.merge_insert("id").when_matched_update_all()
        merged.execute(self._rows(ids, rows, numbers))

    def build(self) -> None:
        self._table.create_index(
            metric="dot",
            vector_column_name="vector",
            index_type="IVF_HNSW_SQ",
            m=LINKS,
            ef_construction=BUILDING,
        )
        for column in ("id", "number"):
            self._table.create_scalar_index(column)

    def nearest(self, query: Vector, limit: int, below: int | None) -> list[int]:
        found = self._table.search(query, vector_column_name="vector").distance_type("dot").limit(limit)
        found = found.nprobes(self.width).ef(max(self.width, REFINED * limit)).refine_factor(REFINED)
        if below is not None:
            found = found.where(f"number < {below}", prefilter=True)
        ids: list[int] = found.select(["id", "_distance"]).to_arrow().column("id").to_pylist()
        return ids

    def _rows(self, ids: Ids, rows: Vectors, numbers: Ids) -> Any:  # noqa: ANN401 (a table of pyarrow)
        import pyarrow

        vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.reshape(-1)), self.dim)
        return pyarrow.table({"id": ids, "number": numbers, "vector": vectors})


SELECT = "select id from rows where "


class SqliteVec(EmbeddedLibrary):
    """sqlite-vec, which compares every row."""

    package, title, effort = "sqlite_vec", "sqlite-vec", False

    def __init__(self, folder: Path, dim: int) -> None:
        import sqlite_vec

        super().__init__(folder, dim)
        self._database = sqlite3.connect(folder / "rows.db")
        self._database.enable_load_extension(True)
        sqlite_vec.load(self._database)
        columns = f"id integer primary key, number integer, vector float[{dim}] distance_metric=cosine"
        self._database.execute(f"create virtual table rows using vec0({columns})")

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._write("insert into rows(number, vector, id) values (?, ?, ?)", ids, rows, numbers)

    def replace(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._write("update rows set number = ?, vector = ? where id = ?", ids, rows, numbers)

    def nearest(self, query: Vector, limit: int, below: int | None) -> list[int]:
        where, values = "vector match ? and k = ?", [query.tobytes(), limit]
        if below is not None:
            where, values = f"{where} and number < ?", [*values, below]
        return [one for (one,) in self._database.execute(SELECT + where, values)]

    def close(self) -> None:
        self._database.close()

    def _write(self, statement: str, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        blobs = (row.tobytes() for row in rows)
        with self._database:
            self._database.executemany(statement, zip(numbers.tolist(), blobs, ids.tolist(), strict=True))


class MilvusLite(EmbeddedLibrary):
    """milvus-lite, asked for its HNSW index, whatever it makes of that."""

    package, title = "milvus_lite", "milvus-lite"

    def __init__(self, folder: Path, dim: int) -> None:
        from pymilvus import DataType, MilvusClient

        super().__init__(folder, dim)
        self._client = client = MilvusClient(str(folder / "rows.db"))
        schema, index = client.create_schema(), client.prepare_index_params()
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("number", DataType.INT64)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
        built = {"M": LINKS, "efConstruction": BUILDING}
        index.add_index("vector", index_type="HNSW", metric_type="IP", params=built)
        client.create_collection("rows", schema=schema, index_params=index)

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._write(self._client.insert, ids, rows, numbers)

    def replace(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._write(self._client.upsert, ids, rows, numbers)

    def build(self) -> None:
        self._client.load_collection("rows")

    def nearest(self, query: Vector, limit: int, below: int | None) -> list[int]:
        where = "" if below is None else f"number < {below}"
        params = {"params": {"ef": max(limit, self.width)}}
        found = self._client.search("rows", [query], where, limit=limit, search_params=params)
        return [hit["id"] for hit in found[0]]

    def close(self) -> None:
        self._client.close()

    def _write(self, write: Callable[..., object], ids: Ids, rows: Vectors, numbers: Ids) -> None:
        each = zip(ids.tolist(), numbers.tolist(), rows, strict=True)
        write("rows", [{"id": one, "number": number, "vector": row} for one, number, row in each])


LIBRARIES: dict[str, type[EmbeddedLibrary]] = {
    kind.package: kind
    for kind in (Usearch, Hnswlib, ScalableVectorSearch, QdrantEdge, Lancedb, SqliteVec, MilvusLite)
}
