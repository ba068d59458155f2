"""Exact search of rows in memory: views of rows, index scores, and the nearest rows by looking at each.

`exact` is the truth: summed in float64 and rounded once, so a row scores the same wherever it lies and
whoever lies beside it. `fast` is one float32 matrix product, and never further from `exact` than `slack`:
a float32 sum of d products is off by at most d·2⁻²⁴ of the product of lengths, in any order; twice that is
allowed for.

A float32 product narrows all rows to the few that could be among the best, given how far it can be off;
those are scored exactly. So the answer is the exact ranking, whatever the layout of the rows in memory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32, Int64

from index.contracts import NO_ROW, Ids, PairedIds, RowBlock, RowRanking, RowRankings
from multifold.types import Metric, Vector, Vectors

Lengths: TypeAlias = Float32[np.ndarray, " g"]
GatherScores: TypeAlias = Callable[
    [bool, Vectors, Float32[np.ndarray, "g d"], Int64[np.ndarray, "q c"], Float32[np.ndarray, "q c"]], None
]
PIECE = 1 << 17  # numbers that stay in a core's cache
TINY = 2.0**-126  # what an underflow may lose


def lengths(vectors: Vectors) -> Float32[np.ndarray, " b"]:
    """The Euclidean length of each vector."""
    squares = np.einsum("bd,bd->b", vectors, vectors, dtype=np.float64)
    return np.asarray(np.sqrt(squares), np.float32)


def exact_scores(
    metric: Metric,
    query: Vector,
    gallery: Float32[np.ndarray, "g d"],
    places: Int64[np.ndarray, " c"] | None = None,
) -> Float32[np.ndarray, " c"]:
    """The scores of a query against rows of the gallery, rounded once; without `places` against each."""
    where = np.arange(len(gallery)) if places is None else places
    scores: Float32[np.ndarray, " c"] = exact_scores_at(metric, query[None], gallery, where[None])[0]
    return scores


def exact_scores_at(
    metric: Metric, queries: Vectors, gallery: Float32[np.ndarray, "g d"], places: Int64[np.ndarray, "q c"]
) -> Float32[np.ndarray, "q c"]:
    """Each query against places of the gallery of its own, as `exact` scores them."""
    scores = np.empty(places.shape, np.float32)
    if gather := load_compiled():
        asked, rows, where = (np.ascontiguousarray(array) for array in (queries, gallery, places))
        gather(metric == "l2", asked, rows, where, scores)
        return scores
    step = max(1, PIECE // max(1, places.shape[1] * gallery.shape[1]))
    for start in range(0, len(queries), step):
        some = slice(start, start + step)
        scores[some] = _exact(metric, queries[some], gallery[places[some]])
    return scores


@cache
def load_compiled() -> GatherScores | None:
    """Exact scores in a third of the time, where numba is installed; loading it takes half a second."""
    if find_spec("numba") is None:
        return None
    gather: GatherScores = import_module("index.engines.numba_scoring").gather_scores
    return gather


def _exact(
    metric: Metric, queries: Float32[np.ndarray, "q d"], galleries: Float32[np.ndarray, "q c d"]
) -> Float32[np.ndarray, "q c"]:
    wide, asked = galleries.astype(np.float64), queries.astype(np.float64)[:, None]
    if metric == "ip":
        return np.asarray(pair_products(wide, asked), np.float32)
    wide -= asked
    return np.asarray(-pair_products(wide, wide), np.float32)


def pair_products(
    left: Float64[np.ndarray, "*#b d"], right: Float64[np.ndarray, "*#b d"]
) -> Float64[np.ndarray, "..."]:
    """⟨left, right⟩ of each pair: products of a row and a column, in whose order no other pair has a part."""
    return np.asarray(np.matmul(left[..., None, :], right[..., None])[..., 0, 0])


def fast_scores(
    metric: Metric,
    queries: Float32[np.ndarray, "q d"],
    gallery: Float32[np.ndarray, "g d"],
    gallery_lengths: Lengths,
) -> Float32[np.ndarray, "q g"]:
    """The scores of all queries against all rows, within `slack` of the exact ones."""
    products: Float32[np.ndarray, "q g"] = queries @ gallery.T
    if metric == "l2":
        products *= 2
        products -= gallery_lengths**2
        products -= lengths(queries)[:, None] ** 2
    return products


def score_slack(metric: Metric, query: Vector, longest: float) -> float:
    """How far a fast score may lie from the exact one, among rows no longer than `longest`."""
    query_length = float(lengths(query[None])[0])
    scale = longest * query_length if metric == "ip" else (longest + query_length) ** 2
    return product_slack(scale, len(query))


def product_slack(scale: float, dim: int) -> float:
    """How far sums over products of vectors can be off in float32, where no term is larger than `scale`."""
    terms = dim + 8
    return scale * terms * 2.0**-23 + terms * TINY


def best_scores(
    scores: Float32[np.ndarray, "q c"], places: Int64[np.ndarray, "q c"], limit: int
) -> tuple[Float32[np.ndarray, "q k"], Int32[np.ndarray, "q k"]]:
    """The best scores of each row and their places (below 2³¹), best first; ties go to the smaller place."""
    keys = np.empty(places.shape, np.int64)  # which are sorted many times faster than pairs
    low, high = _halves(keys)
    low[:], high[:] = places, _rising((0 - scores).view(np.int32))
    keys.sort(axis=1)
    low, high = _halves(keys[:, :limit])
    return 0 - _rising(high).view(np.float32), low


def _halves(keys: Int64[np.ndarray, "q c"]) -> tuple[Int32[np.ndarray, "q c"], Int32[np.ndarray, "q c"]]:
    halves = keys.view("<i4")
    return halves[:, ::2], halves[:, 1::2]


def _rising(bits: Int32[np.ndarray, "q c"]) -> Int32[np.ndarray, "q c"]:
    """The bits of floats as integers of the same order, and back."""
    return np.asarray(bits ^ ((bits >> 31) & 0x7FFF_FFFF))


BLOCK_ROWS = 8192  # rows


@dataclass(frozen=True, eq=False)
class RowView:
    """Ids rise with position, so a tie that goes to the first position goes to the smallest id."""

    ids: Int64[np.ndarray, " g"]
    vectors: Float32[np.ndarray, "g d"]
    lengths: Float32[np.ndarray, " g"]
    alive: Bool[np.ndarray, " g"] | None = None  # None: all of them

    def __len__(self) -> int:
        return len(self.ids) - self.dead

    @cached_property
    def dead(self) -> int:
        """How many rows are removed, and still lie here."""
        return 0 if self.alive is None else int(len(self.alive) - np.count_nonzero(self.alive))

    @cached_property
    def longest(self) -> float:
        """The length of the longest vector."""
        return float(self.lengths.max(initial=0.0))

    def positions(self, allowed: Ids | None = None) -> Ids | None:
        """Where the living (and allowed) rows lie, rising; None stands for every row."""
        if allowed is not None:
            return self.find(sort_unique(allowed))
        return np.flatnonzero(self.alive) if self.dead and self.alive is not None else None

    def find(self, ids: Ids) -> Ids:
        """Positions of those rising ids that are there and alive."""
        places = np.searchsorted(self.ids, ids)
        inside = places < len(self.ids)
        places, ids = places[inside], ids[inside]
        places = places[self.ids[places] == ids]
        living: Ids = places if self.alive is None else places[self.alive[places]]
        return living

    def blocks(self, allowed: Ids | None = None) -> Iterator[RowBlock]:
        """The living (and allowed) rows, some at a time."""
        places = self.positions(allowed)
        for start in range(0, len(self.ids) if places is None else len(places), BLOCK_ROWS):
            some = slice(start, start + BLOCK_ROWS) if places is None else places[start : start + BLOCK_ROWS]
            yield self.ids[some], self.vectors[some]

    def without(self, ids: Ids) -> "RowView":
        """The view after these ids were removed; this one stays as it is."""
        places = self.find(sort_unique(ids))
        if not len(places):
            return self
        alive = np.ones(len(self.ids), np.bool_) if self.alive is None else self.alive.copy()
        alive[places] = False
        return replace(self, alive=alive)

    def sample(self, count: int) -> Vectors:
        """Up to so many of the living vectors, spread evenly."""
        places = np.arange(len(self.ids)) if self.alive is None else np.flatnonzero(self.alive)
        taken = min(count, len(places))
        return self.vectors[places[np.arange(taken) * len(places) // max(1, taken)]]

    def living_ids(self) -> Ids:
        """Ids of the living rows."""
        return self.ids if self.alive is None else self.ids[self.alive]

    def living(self) -> tuple[Ids, Vectors]:
        """Ids and vectors of the living rows."""
        places = self.positions()
        return (self.ids, self.vectors) if places is None else (self.ids[places], self.vectors[places])


def view_of(ids: PairedIds, vectors: Vectors) -> RowView:
    """Rows put in the order of their ids."""
    if not (ids[1:] > ids[:-1]).all():
        order = np.argsort(ids, kind="stable")
        ids, vectors = ids[order], vectors[order]
    return RowView(ids, vectors, lengths(vectors))


def sort_unique(ids: Ids) -> Ids:
    """Sorted, each once (np.unique hashes, which takes many times as long here)."""
    if (ids[1:] > ids[:-1]).all():
        return ids
    ids = np.sort(ids)
    fresh = np.ones(len(ids), np.bool_)
    np.not_equal(ids[1:], ids[:-1], out=fresh[1:])
    return ids[fresh]


MAX_SCORES = 1 << 24  # scores held at once: 64 MB
GATHER = 4  # candidates are gathered first when they are fewer than one row in so many
STRIDE = 128  # scores whose best stands for all of them in a first look


def nearest_rows(
    metric: Metric, view: RowView, queries: Vectors, limit: int, allowed: Ids | None = None
) -> RowRankings:
    """The best rows of each query, best first, padded with -inf and NOBODY; ties go to the smaller id."""
    positions = view.positions(allowed)
    scores = np.full((len(queries), limit), -np.inf, np.float32)
    ids = np.full((len(queries), limit), NO_ROW, np.int64)
    step = max(1, MAX_SCORES // max(1, len(view.ids)))
    for start in range(0, len(queries), step):
        block = queries[start : start + step]
        for row, fast in enumerate(_fast(metric, view, block, positions), start):
            found = _best(metric, view, queries[row], fast, positions, limit)
            scores[row, : len(found[0])], ids[row, : len(found[1])] = found
    return scores, ids


def rows_within(
    metric: Metric, view: RowView, query: Vector, threshold: float, allowed: Ids | None = None
) -> RowRanking:
    """Every row that scores `threshold` or more, best first."""
    positions = view.positions(allowed)
    fast = _fast(metric, view, query[None], positions)[0]
    close = fast >= threshold - score_slack(metric, query, view.longest)
    scores, ids = _rank(metric, view, query, np.flatnonzero(close), positions)
    end = int(np.count_nonzero(scores >= threshold))
    return scores[:end], ids[:end]


def _fast(
    metric: Metric, view: RowView, queries: Vectors, positions: Ids | None
) -> Float32[np.ndarray, "q g"]:
    """Fast scores of the rows at `positions`."""
    if positions is None:
        return fast_scores(metric, queries, view.vectors, view.lengths)
    if len(positions) * GATHER < len(view.ids):
        return fast_scores(metric, queries, view.vectors[positions], view.lengths[positions])
    return fast_scores(metric, queries, view.vectors, view.lengths)[:, positions]


def _best(
    metric: Metric,
    view: RowView,
    query: Vector,
    fast: Float32[np.ndarray, " g"],
    positions: Ids | None,
    limit: int,
) -> RowRanking:
    candidates = np.arange(len(fast))
    if limit < len(fast):
        # `limit` rows score at least floor - slack exactly, so whoever beats them is at floor - 2·slack here
        margin = 2 * score_slack(metric, query, view.longest)
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


def _rank(metric: Metric, view: RowView, query: Vector, candidates: Ids, positions: Ids | None) -> RowRanking:
    """Exact scores and ids of the candidates, best first."""
    where = candidates if positions is None else positions[candidates]
    scores = exact_scores(metric, query, view.vectors, where)
    order = np.argsort(-scores, kind="stable")
    return scores[order], view.ids[where][order]
