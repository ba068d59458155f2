"""What races: our index and our collection, a bare FAISS index, and hnswlib.

Each racer gets one thread, where it can be told.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from jaxtyping import Int64

from index.collection import Collection
from index.contracts import AUTO, Ids, IndexPlan, Memory
from index.engines.faiss_engine import FaissEngine
from index.engines.faiss_library import faiss
from index.plain_space import PlainSpace
from index.search.query import Query
from index.store.filters import parse_filter
from multifold.types import Item, Observation, Vectors

Places: TypeAlias = Int64[np.ndarray, "q k"]
LINKS, BUILDING = 32, 128  # of a row in a graph, and candidates for them
REFINED = 2  # times as many candidates of compressed rows are compared exactly


class Racer:
    """Rows with an id and a number; finds the nearest to a query, perhaps among low numbers only."""

    package: ClassVar[str]
    title: ClassVar[str]
    has_effort: ClassVar[bool] = True  # else it chooses the width of a search by itself

    def __init__(self, folder: Path, probes: Vectors) -> None:
        """The probes are queries of the kind that will be asked."""
        self.folder = folder
        self.probes = probes
        self.dim = probes.shape[1]

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        """Add new rows."""
        raise NotImplementedError

    def replace(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        """Put others in the place of rows that are there."""
        raise NotImplementedError

    def search(self, queries: Vectors, limit: int, below: int | None = None) -> Places:
        """The ids nearest by inner product, padded with -1; `below`: only rows whose number is lower."""
        raise NotImplementedError

    def build(self) -> None:
        """What is left to do once all rows are there."""

    def set_recall(self, recall: float) -> None:
        """For racers that choose the width of a search by themselves."""

    def set_effort(self, width: int) -> None:
        """For those that have to be told the width."""

    def save(self) -> None:
        """Write to the folder what is not there yet."""

    def close(self) -> None:
        """Release everything."""


class OurIndex(Racer):
    """The engine of a collection, tuned with the probes; a filter is the list of the ids that it allows."""

    package = "faiss"
    title = "ours, index"
    has_effort = False
    memory: ClassVar[Memory] = "resident"

    def __init__(self, folder: Path, probes: Vectors) -> None:
        super().__init__(folder, probes)
        self._numbers = np.empty(0, np.int64)
        self._allowed = dict[int, Ids]()
        self._engine = self._open(0.95)

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._numbers = np.concatenate([self._numbers, numbers])
        self._engine.add(ids, rows)

    def replace(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._numbers[ids] = numbers
        self._allowed.clear()
        self._engine.remove(ids)
        self._engine.add(ids, rows)

    def search(self, queries: Vectors, limit: int, below: int | None = None) -> Places:
        if below is None:
            return np.asarray(self._engine.search(queries, limit)[1])
        if below not in self._allowed:
            self._allowed[below] = np.flatnonzero(self._numbers < below)
            self._allowed[below].flags.writeable = False  # as those of a collection: it is the same each time
        return np.asarray(self._engine.search(queries, limit, self._allowed[below])[1])

    def build(self) -> None:
        self._engine.settle()

    def set_recall(self, recall: float) -> None:
        new = self._open(recall)
        former = self._engine
        for ids, vectors in former.blocks():
            new.add(ids, vectors)
        new.settle()
        self._engine = new
        former.close()

    def save(self) -> None:
        self._engine.save(self.folder / "rows.index")

    def close(self) -> None:
        self._engine.close()

    def _open(self, recall: float) -> FaissEngine:
        plan = IndexPlan(AUTO, "cpu", recall, memory=self.memory)
        return FaissEngine(self.dim, "ip", plan, ask=lambda _: self.probes, home=self.folder)


class OurCodes(OurIndex):
    """The same with codes in memory and vectors in a file."""

    title = "ours, codes in memory"
    memory = "codes"


class OurCollection(Racer):
    """A collection on SQLite, which measures its recall without the probes. A hit is read with its item."""

    package = "sqlalchemy"
    title = "ours, collection"
    has_effort = False

    def __init__(self, folder: Path, probes: Vectors) -> None:
        super().__init__(folder, probes)
        self._collection = Collection.open(folder, PlainSpace("cosine", self.dim), plan=self._plan(0.95))

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._collection.upsert(
            [
                Item(str(one), (Observation("photo", 0, row),), {"number": number})
                for one, row, number in zip(ids.tolist(), rows, numbers.tolist(), strict=True)
            ]
        )

    replace = add

    def search(self, queries: Vectors, limit: int, below: int | None = None) -> Places:
        where = None if below is None else parse_filter({"number": {"lt": below}})
        found = np.full((len(queries), limit), -1, np.int64)
        for row, query in zip(found, queries, strict=True):
            hits = self._collection.search(Query(query, "image", limit, where=where))
            row[: len(hits)] = [int(hit.id) for hit in hits]
        return found

    def build(self) -> None:
        self._collection.engines.settle()

    def set_recall(self, recall: float) -> None:
        self._collection.reindex(self._plan(recall))

    def close(self) -> None:
        self._collection.close()

    def _plan(self, recall: float) -> IndexPlan:
        return IndexPlan(AUTO, "cpu", recall)


class BareFaiss(Racer):
    """Cells of eight-bit numbers, as many as in ours, refined from the float32 rows by FAISS itself."""

    package = "faiss"
    title = "bare FAISS"

    def __init__(self, folder: Path, probes: Vectors) -> None:
        super().__init__(folder, probes)
        self._numbers = np.empty(0, np.int64)
        self._first = list[Vectors]()
        self._cells_searched = 1

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:  # noqa: ARG002
        self._numbers = np.concatenate([self._numbers, numbers])
        self._first.append(rows)

    def build(self) -> None:
        rows = np.concatenate(self._first)
        self._first.clear()
        cells = 1 << round(np.log2(4 * np.sqrt(len(rows))))
        self._cells = faiss.index_factory(self.dim, f"IVF{cells},SQ8", faiss.METRIC_INNER_PRODUCT)
        self._refined = faiss.IndexRefineFlat(self._cells)
        self._refined.train(rows)
        self._refined.add(rows)
        exact = faiss.downcast_index(self._refined.refine_index)
        self._rows = faiss.rev_swig_ptr(exact.get_xb(), rows.size).reshape(rows.shape)

    def replace(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._numbers[ids] = numbers
        self._rows[ids] = rows
        self._cells.remove_ids(faiss.IDSelectorBatch(ids))
        self._cells.add_with_ids(rows, ids)

    def set_effort(self, width: int) -> None:
        self._cells_searched = width

    def search(self, queries: Vectors, limit: int, below: int | None = None) -> Places:
        cells = faiss.SearchParametersIVF(nprobe=min(self._cells_searched, self._cells.nlist))
        if below is not None:
            cells.sel = faiss.IDSelectorBitmap(np.packbits(self._numbers < below, bitorder="little"))
        how = faiss.IndexRefineSearchParameters(k_factor=REFINED, base_index_params=cells)
        return np.asarray(self._refined.search(queries, limit, params=how)[1])

    def save(self) -> None:
        faiss.write_index(self._refined, str(self.folder / "rows.faiss"))


class Hnswlib(Racer):
    """hnswlib; its M counts half the links of the lowest layer. A filter is a function of Python."""

    package = "hnswlib"
    title = "hnswlib"

    def __init__(self, folder: Path, probes: Vectors) -> None:
        import hnswlib

        super().__init__(folder, probes)
        self._index = hnswlib.Index(space="ip", dim=self.dim)
        self._numbers = np.empty(0, np.int64)
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
        wanted = limit
        if below is not None:
            numbers = self._numbers
            options["filter"] = lambda one: bool(numbers[one] < below)
            wanted = min(limit, int(np.sum(numbers < below)))
        found = np.full((len(queries), limit), -1, np.int64)
        with suppress(RuntimeError):  # fewer were found for one of them
            found[:, :wanted] = self._index.knn_query(queries, wanted, num_threads=1, **options)[0]
        return found

    def save(self) -> None:
        self._index.save_index(str(self.folder / "rows.hnswlib"))


RACERS: dict[str, type[Racer]] = {
    "index": OurIndex,
    "codes": OurCodes,
    "collection": OurCollection,
    "faiss": BareFaiss,
    "hnswlib": Hnswlib,
}
