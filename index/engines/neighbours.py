"""Exact neighbours in a view of rows: every row is looked at, in numpy.

A float32 product narrows all rows to the few that could be among the best, given how far it can be off;
those are scored exactly. So the answer is the exact ranking, whatever the layout of the rows in memory.
"""

import numpy as np
from jaxtyping import Float32

from index.base import NOBODY, Found, Ids, Ranked
from index.engines import scoring
from index.engines.rowview import RowView
from multifold.types import Metric, Vector, Vectors

BLOCK = 1 << 24  # scores held at once: 64 MB
GATHER = 4  # candidates are gathered first when they are fewer than one row in so many
STRIDE = 128  # scores whose best stands for all of them in a first look


def search(metric: Metric, view: RowView, queries: Vectors, limit: int, allowed: Ids | None = None) -> Ranked:
    """The best rows of each query, best first, padded with -inf and NOBODY; ties go to the smaller id."""
    positions = view.positions(allowed)
    scores = np.full((len(queries), limit), -np.inf, np.float32)
    ids = np.full((len(queries), limit), NOBODY, np.int64)
    step = max(1, BLOCK // max(1, len(view.ids)))
    for start in range(0, len(queries), step):
        block = queries[start : start + step]
        for row, fast in enumerate(_fast(metric, view, block, positions), start):
            found = _best(metric, view, queries[row], fast, positions, limit)
            scores[row, : len(found[0])], ids[row, : len(found[1])] = found
    return scores, ids


def within(
    metric: Metric, view: RowView, query: Vector, threshold: float, allowed: Ids | None = None
) -> Found:
    """Every row that scores `threshold` or more, best first."""
    positions = view.positions(allowed)
    fast = _fast(metric, view, query[None], positions)[0]
    close = fast >= threshold - scoring.slack(metric, query, view.longest)
    scores, ids = _rank(metric, view, query, np.flatnonzero(close), positions)
    end = int(np.count_nonzero(scores >= threshold))
    return scores[:end], ids[:end]


def _fast(
    metric: Metric, view: RowView, queries: Vectors, positions: Ids | None
) -> Float32[np.ndarray, "q g"]:
    """Fast scores of the rows at `positions`."""
    if positions is None:
        return scoring.fast(metric, queries, view.vectors, view.lengths)
    if len(positions) * GATHER < len(view.ids):
        return scoring.fast(metric, queries, view.vectors[positions], view.lengths[positions])
    return scoring.fast(metric, queries, view.vectors, view.lengths)[:, positions]


def _best(
    metric: Metric,
    view: RowView,
    query: Vector,
    fast: Float32[np.ndarray, " g"],
    positions: Ids | None,
    limit: int,
) -> Found:
    candidates = np.arange(len(fast))
    if limit < len(fast):
        # `limit` rows score at least floor - slack exactly, so whoever beats them is at floor - 2·slack here
        margin = 2 * scoring.slack(metric, query, view.longest)
        candidates = np.flatnonzero(fast >= _floor(fast, limit) - margin)
        if len(candidates) > 2 * limit:
            close = fast[candidates]
            candidates = candidates[close >= _kth_best(close, limit) - margin]
    scores, ids = _rank(metric, view, query, candidates, positions)
    return scores[:limit], ids[:limit]


def _floor(fast: Float32[np.ndarray, " g"], limit: int) -> np.float32:
    """A number that `limit` of the scores reach; cheaper than the best one."""
    whole = len(fast) // STRIDE
    if whole < 2 * limit:
        return _kth_best(fast, limit)
    return _kth_best(fast[: whole * STRIDE].reshape(whole, STRIDE).max(axis=1), limit)


def _kth_best(scores: Float32[np.ndarray, " s"], limit: int) -> np.float32:
    place = len(scores) - limit
    return np.float32(np.partition(scores, place)[place])


def _rank(metric: Metric, view: RowView, query: Vector, candidates: Ids, positions: Ids | None) -> Found:
    """Exact scores and ids of the candidates, best first."""
    where = candidates if positions is None else positions[candidates]
    scores = scoring.exact(metric, query, view.vectors, where)
    order = np.argsort(-scores, kind="stable")
    return scores[order], view.ids[where][order]
