"""Ours in the terms of the race: an index alone, as graphs are, and a collection, as databases are."""

from pathlib import Path

import numpy as np

from benches.race.libraries import EmbeddedLibrary, Places
from index.collection import Collection
from index.contracts import AUTO, Ids, IndexPlan
from index.engines.faiss_engine import FaissEngine
from index.plain_space import PlainSpace
from index.store.filters import parse_filter
from multifold.types import Item, Observation, Query, Vector, Vectors


class OurIndex(EmbeddedLibrary):
    """The engine of a collection, tuned with the probes; a filter is the list of the ids that it allows."""

    package, title, effort = "faiss", "ours, index", False
    probes: Vectors

    def __init__(self, folder: Path, dim: int) -> None:
        super().__init__(folder, dim)
        self._numbers, self._low = np.empty(0, np.int64), dict[int, Ids]()
        self._engine = self._open(0.95)

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._numbers = np.concatenate([self._numbers, numbers])
        self._engine.add(ids, rows)

    def replace(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._numbers[ids] = numbers
        self._low.clear()
        self._engine.remove(ids)
        self._engine.add(ids, rows)

    def build(self) -> None:
        self._engine.settle()

    def aim(self, recall: float) -> None:
        new, former = self._open(recall), self._engine
        for ids, vectors in former.blocks():
            new.add(ids, vectors)
        new.settle()
        self._engine = new
        former.close()

    def search(self, queries: Vectors, limit: int, below: int | None = None) -> Places:
        if below is None:
            return np.asarray(self._engine.search(queries, limit)[1])
        if below not in self._low:
            self._low[below] = np.flatnonzero(self._numbers < below)
            self._low[below].flags.writeable = False  # as those of a collection are: it is the same each time
        return np.asarray(self._engine.search(queries, limit, self._low[below])[1])

    def save(self) -> None:
        self._engine.save(self.folder / "rows.index")

    def close(self) -> None:
        self._engine.close()

    def _open(self, recall: float) -> FaissEngine:
        plan = IndexPlan(AUTO, "cpu", recall)
        return FaissEngine(self.dim, "ip", plan, ask=lambda _: self.probes, home=self.folder)


class OurCollection(EmbeddedLibrary):
    """A collection on SQLite, with what it makes of itself: no probes are given. A hit is read whole."""

    package, title, effort = "sqlalchemy", "ours, collection", False

    def __init__(self, folder: Path, dim: int) -> None:
        super().__init__(folder, dim)
        self._collection = Collection.open(folder, PlainSpace("cosine", dim), plan=self._plan(0.95))

    def add(self, ids: Ids, rows: Vectors, numbers: Ids) -> None:
        self._collection.upsert(
            [
                Item(str(one), (Observation("photo", 0, row),), {"number": number})
                for one, row, number in zip(ids.tolist(), rows, numbers.tolist(), strict=True)
            ]
        )

    replace = add

    def build(self) -> None:
        self._collection.settle()

    def aim(self, recall: float) -> None:
        self._collection.reindex(self._plan(recall))

    def nearest(self, query: Vector, limit: int, below: int | None) -> list[int]:
        where = None if below is None else parse_filter({"number": {"lt": below}})
        return [int(hit.id) for hit in self._collection.search(Query(query, "image", limit), where)]

    def close(self) -> None:
        self._collection.close()

    def _plan(self, recall: float) -> IndexPlan:
        return IndexPlan(AUTO, "cpu", recall)
