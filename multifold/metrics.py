"""Retrieval metrics, as the papers count them.

Every metric is one number a query, so that its mean is the reported value and `bootstrap` its interval.
Ranks start at 1. Several items may be right; relevance is yes or no. Ties are counted pessimistically:
a right item stands behind every wrong one of equal score.
"""

from collections.abc import Iterator, Sequence
from math import sqrt
from statistics import stdev
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int64

from multifold.errors import MultifoldError

Scores: TypeAlias = Float[np.ndarray, "q g"]
Mask: TypeAlias = Bool[np.ndarray, "q g"]
PerQuery: TypeAlias = Float64[np.ndarray, " q"]
Relevant: TypeAlias = Mask | Sequence[Int[np.ndarray, " _"]]

SCORES_A_STEP = 1 << 20  # scores in one step
NOWHERE = np.iinfo(np.int64).max
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)  # 97.5 % quantiles, 1 freedom on
NORMAL = 1.96


class MetricError(MultifoldError):
    """Numbers that have no meaning, such as the rank of a query that nothing answers."""


class Interval(NamedTuple):
    """The ends of a confidence interval."""

    low: float
    high: float


def ranks(scores: Scores, relevant: Relevant) -> Int64[np.ndarray, " q"]:
    """The rank of each query's best right item. `relevant` is a mask, or for each query its right items."""
    return _positions(scores, relevant, 1)[:, 0]


def recall_at_k(places: Int64[np.ndarray, " q"], k: int) -> PerQuery:
    """1 where a right item is among the first k (the papers' R@k, a hit rate), else 0."""
    return (places <= k).astype(np.float64)


def chance_recall(right: Int64[np.ndarray, " q"], gallery: int, k: int) -> float:
    """What R@k is by chance, where each query has so many right items in a gallery: the mean."""
    lacks = np.ones(len(right))
    for drawn in range(min(k, gallery)):
        lacks *= np.maximum(gallery - right - drawn, 0) / (gallery - drawn)
    return float(1 - lacks.mean())


def median_rank(places: Int64[np.ndarray, " q"]) -> float:
    """The rank that half of the queries reach."""
    return float(np.median(places))


def ndcg_at_k(scores: Scores, relevant: Relevant, k: int) -> PerQuery:
    """Gains 1 / log2(1 + rank) of the right items among the first k, over the best that k places can hold."""
    positions = _positions(scores, relevant, k)
    gains = np.where(positions <= k, 1 / np.log2(1.0 + positions), 0).sum(axis=1)
    ideal = np.cumsum(1 / np.log2(2.0 + np.arange(k)))
    right = (positions < NOWHERE).sum(axis=1)
    return np.asarray(gains / ideal[right - 1], np.float64)


def bootstrap(
    values: Float[np.ndarray, " q"],
    *,
    groups: Int[np.ndarray, " q"] | None = None,
    samples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """The percentile interval of the mean, by drawing queries again and again.

    With `groups`, whole groups are drawn: five captions of one item are no five independent queries. To
    compare two methods, give the differences of their values: an interval without 0 tells them apart.
    """
    if not len(values) or not np.isfinite(values).all():
        raise MetricError("a bootstrap needs values, and finite ones")
    ids = np.arange(len(values)) if groups is None else np.unique(groups, return_inverse=True)[1]
    sums = np.bincount(ids, weights=values)
    counts = np.bincount(ids).astype(np.float64)
    rng = np.random.default_rng(seed)
    means = list[Float64[np.ndarray, " s"]]()
    for rows in _chunks(samples, len(sums)):
        drawn = rng.integers(len(sums), size=(rows.stop - rows.start, len(sums)))
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _positions(scores: Scores, relevant: Relevant, k: int) -> Int64[np.ndarray, "q k"]:
    """The places of each query's k best right items, in order; NOWHERE where there are fewer."""
    if k < 1:
        raise MetricError(f"the first {k} items are none; k starts at 1")
    if len(relevant) != len(scores):
        raise MetricError(f"there are {len(scores)} queries, but right items of {len(relevant)}")
    places = np.full((len(scores), k), NOWHERE)
    for rows in _chunks(*scores.shape):
        right = _mask(relevant[rows], scores.shape[1])
        _check(scores[rows], right, rows.start)
        # the k highest scores of right items, highest first; all of them where there are fewer
        most = min(k, scores.shape[1])
        ours = np.where(right, scores[rows], -np.inf)
        best = -np.sort(-np.partition(ours, -most, axis=1)[:, -most:], axis=1)
        wrong = np.where(right, -np.inf, scores[rows])
        for place in range(best.shape[1]):
            there = best[:, place] > -np.inf
            ahead = np.count_nonzero(wrong >= best[:, place, None], axis=1)
            places[rows, place] = np.where(there, place + 1 + ahead, NOWHERE)
    return places


def half_width(values: Sequence[float]) -> float:
    """Half of the 95 % interval of the mean of a few measurements, one for each seed, by Student's t."""
    freedoms = len(values) - 1
    quantile = STUDENT[freedoms - 1] if freedoms <= len(STUDENT) else NORMAL
    return quantile * stdev(values) / sqrt(len(values))


def _chunks(queries: int, gallery: int) -> Iterator[slice]:
    step = max(1, SCORES_A_STEP // max(gallery, 1))
    return (slice(start, min(start + step, queries)) for start in range(0, queries, step))


def _mask(relevant: Relevant, gallery: int) -> Mask:
    if isinstance(relevant, np.ndarray):
        return relevant
    mask = np.zeros((len(relevant), gallery), bool)
    for row, right in zip(mask, relevant, strict=True):
        if len(right) and not (right.min() >= 0 and right.max() < gallery):
            raise MetricError(f"a right item is not one of the {gallery} in the gallery")
        row[right] = True
    return mask


def _check(scores: Scores, right: Mask, first: int) -> None:
    alone = np.flatnonzero(~right.any(axis=1))
    if len(alone):
        raise MetricError(f"query {first + alone[0]} has no right item, so it has no rank; leave it out")
    if not np.isfinite(scores).all():
        raise MetricError("some scores are infinite or not numbers, and cannot be ranked")
