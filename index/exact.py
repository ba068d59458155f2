"""The reference engine: every row is looked at, in numpy.

A float32 product narrows all rows to the few that could be among the best, given how far it can be off;
those are scored exactly. So the answer is the exact ranking, whatever the layout of the rows in memory.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Float32

from index import rowfile, scoring
from index.base import NOBODY, Found, Ids, Paired, Ranked
from index.rowbuffer import RowBuffer
from multifold.types import Metric, Vector, Vectors

BLOCK = 1 << 24  # scores held at once: 64 MB
GATHER = 4  # candidates are gathered first when they are fewer than one row in so many


class ExactEngine:
    """Exact neighbours by index score; ties go to the smaller id."""

    def __init__(self, dim: int, metric: Metric) -> None:
        self._dim = dim
        self._metric = metric
        self._rows = RowBuffer(dim)

    def add(self, ids: Paired, vectors: Vectors) -> None:
        """Add rows; an id that is already there is an error, and nothing is added."""
        self._rows.append(ids, vectors)

    def remove(self, ids: Ids) -> None:
        """Remove rows; ids that are not there are ignored."""
        self._rows.drop(ids)

    def count(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def search(self, queries: Vectors, limit: int, allowed: Ids | None = None) -> Ranked:
        """The best rows of each query, best first, padded with -inf and NOBODY."""
        positions = self._rows.positions(allowed)
        scores = np.full((len(queries), limit), -np.inf, np.float32)
        ids = np.full((len(queries), limit), NOBODY, np.int64)
        step = max(1, BLOCK // max(1, len(self._rows.ids)))
        for start in range(0, len(queries), step):
            block = queries[start : start + step]
            for row, fast in enumerate(self._fast(block, positions), start):
                found = self._best(queries[row], fast, positions, limit)
                scores[row, : len(found[0])], ids[row, : len(found[1])] = found
        return scores, ids

    def range(self, query: Vector, threshold: float, allowed: Ids | None = None) -> Found:
        """Every row that scores `threshold` or more, best first."""
        positions = self._rows.positions(allowed)
        fast = self._fast(query[None], positions)[0]
        close = fast + self._slack(query, positions) >= threshold
        scores, ids = self._rank(query, np.flatnonzero(close), positions)
        end = int(np.count_nonzero(scores >= threshold))
        return scores[:end], ids[:end]

    def save(self, path: Path) -> None:
        """Write the living rows to a file, durably and all at once."""
        living = self._rows.positions()
        where = slice(None) if living is None else living
        rowfile.write(path, self._metric, self._rows.ids[where], self._rows.vectors[where])

    def load(self, path: Path) -> None:
        """Replace the rows by those of a file; a damaged or foreign one is an error and changes nothing."""
        rows = RowBuffer(self._dim)
        rows.append(*rowfile.read(path, self._metric, self._dim))
        self._rows = rows

    def close(self) -> None:
        """Let go of the rows."""
        self._rows = RowBuffer(self._dim)

    def _fast(self, queries: Vectors, positions: Ids | None) -> Float32[np.ndarray, "q g"]:
        """Fast scores of the rows at `positions`."""
        rows = self._rows
        if positions is None:
            return scoring.fast(self._metric, queries, rows.vectors, rows.lengths)
        if len(positions) * GATHER < len(rows.ids):
            return scoring.fast(self._metric, queries, rows.vectors[positions], rows.lengths[positions])
        return scoring.fast(self._metric, queries, rows.vectors, rows.lengths)[:, positions]

    def _slack(self, query: Vector, positions: Ids | None) -> Float32[np.ndarray, " g"]:
        lengths = self._rows.lengths if positions is None else self._rows.lengths[positions]
        return scoring.slack(self._metric, query, lengths)

    def _best(
        self, query: Vector, fast: Float32[np.ndarray, " g"], positions: Ids | None, limit: int
    ) -> Found:
        candidates = np.arange(len(fast))
        if limit < len(fast):
            slack = self._slack(query, positions)
            cut = len(fast) - limit
            worst = np.partition(fast - slack, cut)[cut]
            candidates = np.flatnonzero(fast + slack >= worst)
        scores, ids = self._rank(query, candidates, positions)
        return scores[:limit], ids[:limit]

    def _rank(self, query: Vector, candidates: Ids, positions: Ids | None) -> Found:
        """Exact scores and ids of the candidates, best first."""
        where = candidates if positions is None else positions[candidates]
        scores = scoring.exact(self._metric, query, self._rows.vectors[where])
        order = np.argsort(-scores, kind="stable")
        return scores[order], self._rows.ids[where][order]
