"""The reference engine: every row is looked at, in numpy (see neighbours.py)."""

from collections.abc import Iterator
from pathlib import Path

from index.base import Block, Found, Ids, Paired, Ranked
from index.engines import neighbours, rowfile
from index.engines.rowbuffer import RowBuffer
from index.engines.rowview import RowView
from multifold.types import Metric, Vector, Vectors


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

    def add(self, ids: Paired, vectors: Vectors) -> None:
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
    ) -> Ranked:
        """The best rows of each query, best first, padded with -inf and NOBODY."""
        return neighbours.search(self._metric, self.view, queries, limit, allowed)

    def range(self, query: Vector, threshold: float, allowed: Ids | None = None) -> Found:
        """Every row that scores `threshold` or more, best first."""
        return neighbours.within(self._metric, self.view, query, threshold, allowed)

    def blocks(self, allowed: Ids | None = None) -> Iterator[Block]:
        """Every row, some at a time."""
        return self.view.blocks(allowed)

    def sample(self, count: int) -> Vectors:
        """Up to so many of the vectors, drawn evenly."""
        return self.view.sample(count)

    def save(self, path: Path) -> None:
        """Write the living rows to a file, durably and all at once."""
        rowfile.write(path, self._metric, *self.view.living())

    def load(self, path: Path) -> None:
        """Replace the rows by those of a file; a damaged or foreign one is an error and changes nothing."""
        rows = RowBuffer(self._dim)
        rows.append(*rowfile.read(path, self._metric, self._dim))
        self._rows = rows

    def close(self) -> None:
        """Let go of the rows."""
        self._rows = RowBuffer(self._dim)
