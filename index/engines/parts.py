"""A part of an engine: rows, most of them behind an index, each search exact in its scores.

With an index: candidates come from FAISS, the dead and the not allowed are dropped, the rest is scored
exactly. Where dropping leaves too few, the search reaches further; where so few rows are allowed that
looking at each of them is cheaper, it does that. So neither a filter nor a removal costs a hit.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from index.base import NOBODY, Ids, Ranked
from index.engines import neighbours, scoring
from index.engines.ann import Ann, Setting
from index.engines.report import Report
from index.engines.rowview import RowView
from multifold.types import Metric, Vectors

SCAN = 16  # a candidate costs as much as looking at so many rows
WIDER = 4  # how much further a search that found too few reaches


@dataclass(frozen=True, eq=False)
class Part:
    """Rows and, where it pays, their index; sealed once a report says what it is."""

    rows: RowView
    ann: Ann | None = None
    report: Report | None = None

    @property
    def seal(self) -> Report:
        """The report of a part that has one."""
        assert self.report is not None
        return self.report

    def search(
        self, metric: Metric, queries: Vectors, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> Ranked:
        """The best rows of each query, best first, padded; `allowed` ids rise."""
        if self.ann is None or exact:
            return neighbours.search(metric, self.rows, queries, limit, allowed)
        chosen = len(self.rows) if allowed is None else min(len(allowed), len(self.rows))
        share = max(chosen / len(self.rows.ids), 1e-9)
        return self._reach(metric, queries, self.ann.setting(limit).within(share), limit, allowed, chosen)

    def _reach(
        self, metric: Metric, queries: Vectors, how: Setting, limit: int, allowed: Ids | None, chosen: int
    ) -> Ranked:
        """Look as `how` says, and further for those queries that find too few."""
        assert self.ann is not None
        if how.candidates * SCAN >= chosen or how.candidates > self.ann.most():
            return neighbours.search(metric, self.rows, queries, limit, allowed)
        positions = self.ann.candidates(queries, how.candidates, how.effort)
        good = self._good(positions, allowed)
        short = good.sum(axis=1) < how.needed
        scores, ids = rescored(metric, self.rows, queries, positions, good, limit)
        if short.any():
            scores[short], ids[short] = self._reach(
                metric, queries[short], how.wider(WIDER), limit, allowed, chosen
            )
        return scores, ids

    def _good(self, positions: Int64[np.ndarray, "q c"], allowed: Ids | None) -> Bool[np.ndarray, "q c"]:
        """Which candidates are there, alive and allowed."""
        good = positions >= 0
        if self.rows.alive is not None:
            good &= self.rows.alive[positions]
        if allowed is not None:
            ids = self.rows.ids[positions]
            places = np.minimum(np.searchsorted(allowed, ids), len(allowed) - 1)
            good &= allowed[places] == ids
        return good


def look(ann: Ann, metric: Metric, rows: RowView, queries: Vectors, setting: Setting) -> Ranked:
    """One search of rows that are all alive, as this setting says."""
    positions = ann.candidates(queries, setting.candidates, setting.effort)
    return rescored(metric, rows, queries, positions, positions >= 0, setting.limit)


def rescored(
    metric: Metric,
    rows: RowView,
    queries: Vectors,
    positions: Int64[np.ndarray, "q c"],
    good: Bool[np.ndarray, "q c"],
    limit: int,
) -> Ranked:
    """The best of the good candidates by their exact scores; ties go to the smaller id."""
    scores = scoring.exact_at(metric, queries, rows.vectors, positions)
    scores[~good] = -np.inf
    scores, places = scoring.best(scores, positions, limit)
    ids = rows.ids[places]
    ids[np.isneginf(scores)] = NOBODY
    return _padded(scores, -np.inf, limit), _padded(ids, NOBODY, limit)


def _padded(array: np.ndarray, filler: float | int, limit: int) -> np.ndarray:
    missing = limit - array.shape[1]
    return np.pad(array, ((0, 0), (0, missing)), constant_values=filler) if missing > 0 else array
