"""Curves from scores to the probability of a match, fitted on held-out items, and how reliable they are.

Queries are those of a service: one text, one picture, the views of one mesh; the hits are items, by the mean
or the best of their observations. Items with the very same text match, too. Queries of the same side as
their hits are halves of their item's observations, as in retrieval.

The stored curve is fitted on all items. Its quality is that of two others, each fitted on the queries of
every other item and measured on the rest.
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
    reliability: dict[str, Any] = {}
    for side, target, pool, direction in _directions(encoder, observed):
        name = calibration.pair_name(side, target, pool)
        try:
            curves[name] = _rounded(fit_curve(direction))
            reliability[name] = {"queries": len(direction.items), **_measure_reliability(direction)}
        except CalibrationError as error:
            reliability[name] = {"queries": len(direction.items), "none": str(error)}
    return curves, reliability


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
    for side, target, pool in product(SIDES, SIDES, POOLS):
        name = f"{side}_to_{target}"
        if target == "image" and not len(observed.image):
            continue  # views stand in for photos as queries, but no missing photo can be found
        if all(map(len, directions.parties(observed, name))):
            texts = "text" in (side, target)
            yield side, target, pool, directions.direction(encoder, observed, name, pool, equal_texts=texts)


def _measure_reliability(direction: RetrievalDirection) -> dict[str, Any]:
    """Reliability of the first ten hits and of the first; false accepts, predicted and counted."""
    gallery = direction.scores.shape[1]
    confidence = np.zeros(direction.scores.shape)
    promised = []
    for half in (direction.items % 2 == 0, direction.items % 2 == 1):
        curve = fit_curve(direction.only(half))
        flat = curve.confidence(direction.scores[~half].ravel(), gallery)
        confidence[~half] = flat.reshape(-1, gallery)
        promised.append([curve.false_accepts(threshold, gallery) for threshold in THRESHOLDS])
    strangers = np.where(direction.relevant, 0.0, confidence).max(axis=1)
    best = confidence.max(axis=1)
    measures: dict[str, Any] = {"thresholds": []}
    for threshold, promise in zip(THRESHOLDS, np.mean(promised, axis=0), strict=True):
        accepted = (strangers >= threshold).astype(np.float64)
        counted = (accepted.mean(), *bootstrap(accepted, groups=direction.items))
        row = {"promised": promise, "counted": counted, "answered": (best >= threshold).mean()}
        rounded = {key: _short(value) for key, value in row.items()}
        measures["thresholds"].append({"confidence": threshold, **rounded})
    for name, most in (("shown", SHOWN), ("first", 1)):
        hits = np.argsort(-confidence, axis=1, kind="stable")[:, :most]
        sure, right = (np.take_along_axis(table, hits, axis=1) for table in (confidence, direction.relevant))
        bins = calibration.reliability_bins(sure.ravel(), right.ravel())
        ece = _short(calibration.expected_calibration_error(bins))
        measures[name] = {"ece": ece, "bins": [[*map(_short, one)] for one in bins]}
    return measures


def _short(value: Any) -> Any:  # noqa: ANN401 (a number, or several)
    if isinstance(value, tuple):
        return [_short(one) for one in value]
    return value if isinstance(value, int) else round(float(value), 4)


def _rounded(curve: CalibrationCurve) -> CalibrationCurve:
    """Few digits, so that a bundle is the same on every machine."""
    slope, intercept = round(curve.slope, 4), round(curve.intercept, 4)
    strangers = tuple(round(score, DIGITS) for score in curve.strangers)
    return replace(curve, slope=slope, intercept=intercept, strangers=strangers)
