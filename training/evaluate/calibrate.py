"""Curves from scores to the probability of a match, fitted on held-out items, and how far to trust them.

What is asked is what a service is asked with: one text, one picture, the views of one mesh; what answers are
items, by the mean or the best of their observations. Where texts ask or answer, an item of which the very
same text is said is a match, too. Things of one side ask their own item by halves, as in retrieval.

The curve that is kept is fitted on all items. How good it is, is told by two others: each is fitted on the
queries of every other item and measured on the rest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from multifold.bundle import bundle as bundles
from multifold.bundle import calibration
from multifold.bundle.bundle import Bundle
from multifold.bundle.calibration import CalibrationCurve, CalibrationError
from multifold.manifest import ManifestEntry
from multifold.metrics import bootstrap
from multifold.types import SIDES, Pooling, Side
from training.evaluate.subject import encode_test_set, evaluated_bundle
from training.retrieval import directions
from training.retrieval.directions import RetrievalDirection, RetrievalEncoder
from training.retrieval.features import HeldOutFeatures

POOLS: tuple[Pooling, ...] = ("mean", "max")
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
SHOWN = 10  # hits of a query that people look at
DIGITS = 6


def calibrate(
    encoder: RetrievalEncoder, observed: HeldOutFeatures
) -> tuple[dict[str, CalibrationCurve], dict[str, Any]]:
    """A curve for each pair of sides and pool, and its measurements."""
    curves: dict[str, CalibrationCurve] = {}
    told: dict[str, Any] = {}
    for asked, target, pool, direction in _directions(encoder, observed):
        name = calibration.pair_name(asked, target, pool)
        try:
            curves[name] = _rounded(fit_curve(direction))
            told[name] = {"queries": len(direction.items), **_trust(direction)}
        except CalibrationError as error:
            told[name] = {"queries": len(direction.items), "none": str(error)}
    return curves, told


def write_curves(folder: Path, curves: Mapping[str, CalibrationCurve], **about: object) -> Bundle:
    """Store the curves in a bundle; its vectors and its other files stay as they are."""
    return bundles.save(replace(bundles.load(folder), calibration=calibration.describe(curves, **about)))


def calibrate_bundle(folder: Path, entries: Sequence[ManifestEntry], cache: Path, **about: object) -> Bundle:
    """A bundle with curves fitted on these items."""
    subject = evaluated_bundle(folder)
    curves, _ = calibrate(subject.encoder, encode_test_set(subject, entries, cache).observed)
    return write_curves(folder, curves, **about)


def fit_curve(direction: RetrievalDirection) -> CalibrationCurve:
    return calibration.fit(direction.scores, direction.relevant, len(np.unique(direction.items)))


def _directions(
    encoder: RetrievalEncoder, observed: HeldOutFeatures
) -> Iterator[tuple[Side, Side, Pooling, RetrievalDirection]]:
    for asked, target, pool in product(SIDES, SIDES, POOLS):
        name = f"{asked}_to_{target}"
        if target == "image" and not len(observed.image):
            continue  # views stand in for photos that ask, but nobody finds a photo that is not there
        if all(map(len, directions.parties(observed, name))):
            spoken = "text" in (asked, target)
            yield asked, target, pool, directions.direction(encoder, observed, name, pool, equal_texts=spoken)


def _trust(direction: RetrievalDirection) -> dict[str, Any]:
    """Reliability of the first ten hits and of the first; false accepts, predicted and counted."""
    gallery = direction.scores.shape[1]
    confidence = np.zeros(direction.scores.shape)
    promised = []
    for half in (direction.items % 2 == 0, direction.items % 2 == 1):
        curve = fit_curve(
            RetrievalDirection(direction.scores[half], direction.relevant[half], direction.items[half])
        )
        flat = curve.confidence(direction.scores[~half].ravel(), gallery)
        confidence[~half] = flat.reshape(-1, gallery)
        promised.append([curve.false_accepts(threshold, gallery) for threshold in THRESHOLDS])
    strangers = np.where(direction.relevant, 0.0, confidence).max(axis=1)
    best = confidence.max(axis=1)
    told: dict[str, Any] = {"thresholds": []}
    for threshold, promise in zip(THRESHOLDS, np.mean(promised, axis=0), strict=True):
        accepted = (strangers >= threshold).astype(np.float64)
        counted = (accepted.mean(), *bootstrap(accepted, groups=direction.items))
        row = {"promised": promise, "counted": counted, "answered": (best >= threshold).mean()}
        told["thresholds"].append({"confidence": threshold, **{key: _short(one) for key, one in row.items()}})
    for name, most in (("shown", SHOWN), ("first", 1)):
        bins = _bins(confidence, direction, most)
        told[name] = {
            "ece": _short(calibration.expected_calibration_error(bins)),
            "bins": [[*map(_short, one)] for one in bins],
        }
    return told


def _bins(
    confidence: np.ndarray, direction: RetrievalDirection, most: int
) -> list[calibration.ReliabilityBin]:
    best = np.argsort(-confidence, axis=1, kind="stable")[:, :most]
    sure, right = (np.take_along_axis(table, best, axis=1) for table in (confidence, direction.relevant))
    return calibration.reliability_bins(sure.ravel(), right.ravel())


def _short(value: Any) -> Any:  # noqa: ANN401 (a number, or several)
    if isinstance(value, tuple):
        return [_short(one) for one in value]
    return value if isinstance(value, int) else round(float(value), 4)


def _rounded(curve: CalibrationCurve) -> CalibrationCurve:
    """Few digits, so that a bundle is the same on every machine."""
    strangers = tuple(round(score, DIGITS) for score in curve.strangers)
    return replace(
        curve, slope=round(curve.slope, 4), intercept=round(curve.intercept, 4), strangers=strangers
    )
