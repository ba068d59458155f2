"""The reference engine: rows in a growing buffer, each of which is looked at."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32

from index.contracts import Ids, IndexEngineError, PairedIds, RowBlock, RowRanking, RowRankings
from index.engines import exact_search, row_file
from index.engines.exact_search import RowView, lengths, sort_unique
from multifold.types import Metric, Vector, Vectors

SMALLEST = 256  # rows a buffer starts with
TOLERATED = 4  # compaction when more than one row in so many is dead


class RowBuffer:
    """Written by one thread at a time; the views it gave out stay as they were."""

    _view: RowView
    _alive: Bool[np.ndarray, " g"]

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._allocate(SMALLEST)
        self._show(0, dead=0)

    @property
    def view(self) -> RowView:
        """The rows as they are now."""
        return self._view

    def append(self, ids: PairedIds, vectors: Vectors) -> None:
        """Add rows. Rising ids are appended; any other order sorts the whole buffer once."""
        if vectors.shape != (len(ids), self._dim):
            raise IndexEngineError(f"{len(ids)} ids need as many vectors of {self._dim}, not {vectors.shape}")
        order = np.argsort(ids, kind="stable")
        ids, vectors = ids[order], vectors[order]
        refuse_known(ids, self._view)
        held = self._view.ids
        if len(ids) and len(held) and ids[0] <= held[-1]:
            self._merge(ids, vectors)
        else:
            self._extend(ids, vectors)

    def drop(self, ids: Ids) -> None:
        """Mark rows as dead; compact when too many are."""
        places = self._view.find(sort_unique(ids))
        if not len(places):
            return
        self._alive = self._alive.copy()
        self._alive[places] = False
        self._show(len(self._view.ids), self._view.dead + len(places))
        if self._view.dead * TOLERATED > len(self._view.ids):
            self._merge(np.empty(0, np.int64), np.empty((0, self._dim), np.float32))

    def _merge(self, ids: PairedIds, vectors: Vectors) -> None:
        living_ids, living = self._view.living()
        ids, vectors = np.concatenate([living_ids, ids]), np.concatenate([living, vectors])
        order = np.argsort(ids, kind="stable")
        self._allocate(max(SMALLEST, len(ids)))
        self._show(0, dead=0)
        self._extend(ids[order], vectors[order])

    def _extend(self, ids: PairedIds, vectors: Vectors) -> None:
        used = len(self._view.ids)
        end = used + len(ids)
        if end > len(self._ids):
            self._grow(max(end, len(self._ids) * 3 // 2))
        new = slice(used, end)
        self._ids[new], self._vectors[new], self._alive[new] = ids, vectors, True
        self._lengths[new] = lengths(vectors)
        self._show(end, self._view.dead)

    def _show(self, used: int, dead: int) -> None:
        now = slice(0, used)
        alive = self._alive[now] if dead else None
        self._view = RowView(self._ids[now], self._vectors[now], self._lengths[now], alive)

    def _allocate(self, capacity: int) -> None:
        self._ids: Ids = np.empty(capacity, np.int64)
        self._vectors: Vectors = np.empty((capacity, self._dim), np.float32)
        self._lengths: Float32[np.ndarray, " b"] = np.empty(capacity, np.float32)
        self._alive = np.ones(capacity, np.bool_)

    def _grow(self, capacity: int) -> None:
        held, alive = self._view, self._alive[: len(self._view.ids)]
        self._allocate(capacity)
        n = len(held.ids)
        self._ids[:n], self._vectors[:n], self._lengths[:n] = held.ids, held.vectors, held.lengths
        self._alive[:n] = alive


def refuse_known(ids: Ids, *views: RowView) -> None:
    """Rising ids that stand twice, or are already in one of the views, are an error."""
    known = ids[:-1][ids[1:] == ids[:-1]]
    for view in views:
        known = known if len(known) else view.ids[view.find(ids)]
    if len(known):
        raise IndexEngineError(f"row {known[0]} is already there: remove it first")


class ExactEngine:
    """Exact neighbours by index score; ties go to the smaller id."""

    def __init__(self, dim: int, metric: Metric) -> None:
        self._dim = dim
        self._metric = metric
        self._rows = RowBuffer(dim)

    @property
    def view(self) -> RowView:
        """The rows as they are now."""
        return self._rows.view

    def add(self, ids: PairedIds, vectors: Vectors) -> None:
        """Add rows; an id that is already there is an error, and nothing is added."""
        self._rows.append(ids, vectors)

    def remove(self, ids: Ids) -> None:
        """Remove rows; ids that are not there are ignored."""
        self._rows.drop(ids)

    def count(self) -> int:
        """How many rows there are."""
        return len(self.view)

    def search(
        self,
        queries: Vectors,
        limit: int,
        allowed: Ids | None = None,
        *,
        exact: bool = False,  # noqa: ARG002 (it always is)
    ) -> RowRankings:
        """The best rows of each query, best first, padded with -inf and NOBODY."""
        return exact_search.nearest_rows(self._metric, self.view, queries, limit, allowed)

    def range(self, query: Vector, threshold: float, allowed: Ids | None = None) -> RowRanking:
        """Every row that scores `threshold` or more, best first."""
        return exact_search.rows_within(self._metric, self.view, query, threshold, allowed)

    def blocks(self, allowed: Ids | None = None) -> Iterator[RowBlock]:
        """Every row, some at a time."""
        return self.view.blocks(allowed)

    def sample(self, count: int) -> Vectors:
        """Up to so many of the vectors, drawn evenly."""
        return self.view.sample(count)

    def save(self, path: Path) -> None:
        """Write the living rows to a file, durably and all at once."""
        row_file.write_rows(path, self._metric, *self.view.living())

    def load(self, path: Path) -> None:
        """Replace the rows by those of a file; a damaged or foreign one is an error and changes nothing."""
        rows = RowBuffer(self._dim)
        rows.append(*row_file.read_rows(path, self._metric, self._dim))
        self._rows = rows

    def close(self) -> None:
        """Let go of the rows."""
        self._rows = RowBuffer(self._dim)
