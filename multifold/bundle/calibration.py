"""Calibration: from an index score to the probability of a match, for each pair of sides.

A curve is logistic in the score. It is fitted on all pairs of held-out queries and the items of one gallery,
in which each query has its match. In a gallery of another size the log-odds fall by log(size / fitted size).

The false-accept rate of a threshold is the share of queries whose best non-match passes it; in a gallery of
another size it is 1 - (1 - rate)^(size / fitted size), as if non-matches were independent.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import log
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Float64

from multifold.errors import MultifoldError
from multifold.types import Pooling, Side

SHARES = (*(share / 20 for share in range(20, 0, -1)), 0.02, 0.01, 0.0)  # of the best strangers
STEPS = 100
PAIRS = "pairs"
Values: TypeAlias = Float[np.ndarray, " p"]


class CalibrationError(MultifoldError):
    """Scores that tell no match from the rest, or a calibration that cannot be read."""


class ReliabilityBin(NamedTuple):
    """Hits of like confidence: their mean confidence, the share that is right, and how many there are."""

    confidence: float
    right: float
    hits: int


@dataclass(frozen=True)
class CalibrationCurve:
    """One pair of sides, fitted to a gallery of so many items, asked by queries about so many."""

    slope: float
    intercept: float
    gallery: int
    items: int
    strangers: tuple[float, ...]  # scores that these shares of the queries' best strangers reach: SHARES

    def __post_init__(self) -> None:
        if not self.slope > 0 or not np.isfinite([self.slope, self.intercept]).all():
            raise CalibrationError("matches score no higher than the rest: there is nothing to be sure of")
        if min(self.gallery, self.items) < 1 or len(self.strangers) != len(SHARES):
            raise CalibrationError(f"a curve needs a gallery and {len(SHARES)} scores of strangers")

    def confidence(self, scores: Values, gallery: int) -> Float64[np.ndarray, " p"]:
        """The probability that each of these is the match, in a gallery of so many items."""
        return _logistic(self.slope * scores.astype(np.float64) + self.intercept - self._shift(gallery))

    def score(self, confidence: float, gallery: int) -> float:
        """The score that has this confidence."""
        odds = log(confidence / (1 - confidence))
        return (odds + self._shift(gallery) - self.intercept) / self.slope

    def false_accepts(self, confidence: float, gallery: int) -> float:
        """The share of queries without a match whose best hit passes the threshold."""
        if confidence <= 0:
            return 1.0
        least = 1 / (self.items + 1)  # so few queries promise nothing rarer
        if confidence >= 1:
            return least
        rate = float(np.interp(self.score(confidence, gallery), self.strangers, SHARES))
        return float(max(least, 1 - (1 - rate) ** (gallery / self.gallery)))

    def _shift(self, gallery: int) -> float:
        return log(max(gallery, 1) / self.gallery)


def fit(scores: Float[np.ndarray, "q g"], relevant: Bool[np.ndarray, "q g"], items: int) -> CalibrationCurve:
    """The most likely curve; the labels are Platt's, which keep it finite where scores never err."""
    if not relevant.any() or relevant.all() or not np.isfinite(scores).all():
        raise CalibrationError("a calibration needs finite scores of matches, and of others")
    values = scores.astype(np.float64).ravel()
    right = relevant.ravel()
    matches, others = int(right.sum()), int((~right).sum())
    labels = np.where(right, (matches + 1) / (matches + 2), 1 / (others + 2))
    slope, intercept = _newton(values, labels)
    best = np.where(relevant, -np.inf, scores).max(axis=1)
    strangers = np.quantile(best[np.isfinite(best)].astype(np.float64), 1 - np.array(SHARES))
    return CalibrationCurve(slope, intercept, scores.shape[1], items, tuple(strangers.tolist()))


def reliability_bins(
    confidence: Values, right: Bool[np.ndarray, " p"], bins: int = 10
) -> list[ReliabilityBin]:
    """Hits sorted by confidence into bins of equal width, empty ones left out."""
    places = np.minimum((confidence * bins).astype(int), bins - 1)
    groups = [(confidence[here], right[here]) for here in (places == place for place in np.unique(places))]
    return [ReliabilityBin(float(sure.mean()), float(hit.mean()), len(hit)) for sure, hit in groups]


def expected_calibration_error(bins: list[ReliabilityBin]) -> float:
    """ECE: how far confidence and share are apart, averaged over the hits."""
    total = sum(one.hits for one in bins)
    return sum(abs(one.confidence - one.right) * one.hits for one in bins) / total


def pair_name(query: Side, target: Side, pool: Pooling) -> str:
    """The name of a pair in a bundle."""
    return f"{query}/{target}/{pool}"


def describe(curves: Mapping[str, CalibrationCurve], **about: object) -> dict[str, Any]:
    """As a bundle keeps it, with what it was fitted on."""
    return {**about, PAIRS: {pair: asdict(curve) for pair, curve in curves.items()}}


def _logistic(values: Float64[np.ndarray, " p"]) -> Float64[np.ndarray, " p"]:
    probabilities: Float64[np.ndarray, " p"] = 1 / (1 + np.exp(-np.clip(values, -700, 700)))
    return probabilities


def _newton(values: Float64[np.ndarray, " p"], labels: Float64[np.ndarray, " p"]) -> tuple[float, float]:
    """Maximum likelihood, on scores of mean 0 and deviation 1; steps are halved where they do not climb."""
    centre = values.mean()
    spread = max(float(values.std()), 1e-12)
    design = np.stack([(values - centre) / spread, np.ones_like(values)], axis=1)
    share = labels.mean()
    weights = np.array([0.0, log(share / (1 - share))])
    current = _likelihood(design @ weights, labels)
    for _ in range(STEPS):
        expected = _logistic(design @ weights)
        curvature = (design * (expected * (1 - expected))[:, None]).T @ design
        step = np.linalg.solve(curvature + 1e-9 * np.eye(2), design.T @ (labels - expected))
        while (next_ := _likelihood(design @ (weights + step), labels)) < current and abs(step).max() > 1e-12:
            step /= 2
        weights, current = weights + step, next_
        if np.abs(step).max() < 1e-8:
            break
    slope = float(weights[0] / spread)
    return slope, float(weights[1] - slope * centre)


def _likelihood(logits: Float64[np.ndarray, " p"], labels: Float64[np.ndarray, " p"]) -> float:
    return float((labels * logits - np.logaddexp(0, logits)).sum())
