"""Exact search of rows whose vectors are in a file: one pass over it for all queries, a block at a time.

It answers as `exact_engine` does for rows in memory, with the same scores and order.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float32, Int64

from index.contracts import NO_ROW, Ids, RowRankings
from index.engines import exact_engine
from index.engines.exact_engine import BLOCK_ROWS, RowView
from index.engines.scoring import exact_scores_at, fast_scores, score_slack
from multifold.types import Metric, Vectors


def nearest_rows(
    metric: Metric, view: RowView, queries: Vectors, limit: int, allowed: Ids | None = None
) -> RowRankings:
    """The best rows of each query, best first, padded with -inf and NO_ROW; ties go to the smaller id."""
    if view.file is None:
        return exact_engine.nearest_rows(metric, view, queries, limit, allowed)
    scores = np.full((len(queries), limit), -np.inf, np.float32)
    ids = np.full((len(queries), limit), NO_ROW, np.int64)
    slacks = np.array([score_slack(metric, query, view.longest) for query in queries])
    for places, vectors, fast in _blocks(metric, view, queries, allowed):
        floors = scores[:, -1] - slacks
        for row in np.flatnonzero(fast.max(axis=1) >= floors).tolist():
            close = _may_be_best(fast[row], limit, float(slacks[row]), float(floors[row]))
            better = exact_scores_at(metric, queries[row : row + 1], vectors, close[None])[0]
            both = np.concatenate([scores[row], better])
            names = np.concatenate([ids[row], view.ids[places[close]]])
            order = np.argsort(-both, kind="stable")[:limit]  # earlier blocks have the smaller ids
            scores[row], ids[row] = both[order], names[order]
    return scores, ids


def scores_at(
    metric: Metric, view: RowView, queries: Vectors, places: Int64[np.ndarray, "q c"]
) -> Float32[np.ndarray, "q c"]:
    """Each query against places of its own; so many rows at a time as memory surely has room for."""
    scores = np.empty(places.shape, np.float32)
    step = max(1, BLOCK_ROWS // max(1, places.shape[1]))
    for start in range(0, len(queries), step):
        some = slice(start, start + step)
        with view.reading(places[some]):
            scores[some] = exact_scores_at(metric, queries[some], view.vectors, places[some])
    return scores


def _blocks(
    metric: Metric, view: RowView, queries: Vectors, allowed: Ids | None
) -> Iterator[tuple[Ids, Vectors, Float32[np.ndarray, "q b"]]]:
    """Places, vectors and fast scores of the living (and allowed) rows, as they lie in the file."""
    positions = view.positions(allowed)
    count = len(view.ids) if positions is None else len(positions)
    for start in range(0, count, BLOCK_ROWS):
        end = min(start + BLOCK_ROWS, count)
        places = np.arange(start, end) if positions is None else positions[start:end]
        vectors = view.take(slice(start, end) if positions is None else places)
        yield places, vectors, fast_scores(metric, queries, vectors, view.lengths[places])


def _may_be_best(
    fast: Float32[np.ndarray, " b"], limit: int, slack: float, floor: float
) -> Int64[np.ndarray, " c"]:
    """Rows of a block that may be among the best `limit`, of which others have the floor already."""
    if limit < len(fast):
        floor = max(floor, float(np.partition(fast, len(fast) - limit)[len(fast) - limit]) - 2 * slack)
    return np.flatnonzero(fast >= floor)
