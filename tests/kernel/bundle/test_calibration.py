"""Calibration: curves that are known are found again, promises are kept, other sizes of gallery too."""

from dataclasses import asdict, replace
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Bool, Float64

from multifold.bundle import calibration
from multifold.bundle.calibration import (
    SHARES,
    CalibrationCurve,
    CalibrationError,
    ReliabilityBin,
    expected_calibration_error,
    fit,
    reliability_bins,
)
from multifold.metrics import bootstrap

CURVE = CalibrationCurve(2.0, -1.0, 100, 50, tuple(np.linspace(0, 3, len(SHARES)).tolist()))


def world(
    queries: int, gallery: int, seed: int
) -> tuple[Float64[np.ndarray, "q g"], Bool[np.ndarray, "q g"]]:
    """Strangers score N(0, 1), each query's one match N(3, 1).

    The log-odds of a match are then 3s - 9/2 - log(gallery - 1): a logistic curve, known.
    """
    rng = np.random.default_rng(seed)
    relevant = np.arange(queries)[:, None] % gallery == np.arange(gallery)
    return rng.standard_normal((queries, gallery)) + 3 * relevant, relevant


def test_a_curve_that_is_known_is_found() -> None:
    scores, relevant = world(2000, 200, 0)
    curve = fit(scores, relevant, 200)
    assert curve.slope == pytest.approx(3, rel=0.05)
    assert curve.intercept == pytest.approx(-4.5 - log(199), rel=0.05)
    assert curve.gallery == 200


@pytest.mark.parametrize("gallery", [50, 600])
def test_confidence_is_the_share_that_is_right_in_galleries_of_other_sizes(gallery: int) -> None:
    curve = fit(*world(2000, 200, 0), 200)
    scores, relevant = world(1500, gallery, 1)
    bins = reliability_bins(curve.confidence(scores.ravel(), gallery), relevant.ravel())
    assert sum(one.hits for one in bins) == scores.size
    for one in bins:
        chance = (one.confidence * (1 - one.confidence) / one.hits) ** 0.5
        assert one.confidence == pytest.approx(one.right, abs=0.01 + 4 * chance)


@pytest.mark.parametrize("gallery", [50, 600])
def test_a_threshold_keeps_its_promise_to_queries_whose_item_was_removed(gallery: int) -> None:
    curve = fit(*world(3000, 200, 0), 3000)
    scores, relevant = world(1500, gallery, 1)
    gone = np.where(relevant, -np.inf, scores)
    for threshold in (0.1, 0.3, 0.5, 0.7, 0.9):
        accepted = (gone.max(axis=1) >= curve.score(threshold, gallery)).astype(np.float64)
        low, high = bootstrap(accepted, level=0.999)
        assert low - 0.02 <= curve.false_accepts(threshold, gallery) <= high + 0.02


def test_one_threshold_is_one_error_rate_whatever_the_scale_of_the_scores() -> None:
    scores, relevant = world(1000, 100, 2)
    plain, stretched = fit(scores, relevant, 100), fit(scores * 40 - 7, relevant, 100)
    assert stretched.slope == pytest.approx(plain.slope / 40, rel=1e-6)
    for threshold in (0.2, 0.5, 0.8):
        promised = plain.false_accepts(threshold, 100)
        assert stretched.false_accepts(threshold, 100) == pytest.approx(promised, abs=1e-6)


def test_scores_that_never_err_leave_the_curve_finite() -> None:
    curve = fit(np.eye(8), np.eye(8, dtype=bool), 8)
    told = curve.confidence(np.array([1.0, 0.0]), 8)
    assert 0.8 < told[0] < 1
    assert told[1] < 0.05


@given(st.floats(0.01, 0.98), st.integers(1, 10**6))
def test_score_and_confidence_undo_each_other_and_promises_fall(confidence: float, gallery: int) -> None:
    told = CURVE.confidence(np.array([CURVE.score(confidence, gallery)]), gallery)
    assert told[0] == pytest.approx(confidence, abs=1e-9)
    assert (CURVE.false_accepts(0.0, gallery), CURVE.false_accepts(1.0, gallery)) == (1, 1 / 51)
    strict = CURVE.false_accepts(confidence + 0.01, gallery)
    assert 1 / 51 <= strict <= CURVE.false_accepts(confidence, gallery) <= 1


def test_reliability_by_hand() -> None:
    bins = reliability_bins(np.array([0.05, 0.15, 0.19, 1.0]), np.array([False, True, False, True]))
    np.testing.assert_allclose(
        bins, [ReliabilityBin(0.05, 0.0, 1), ReliabilityBin(0.17, 0.5, 2), ReliabilityBin(1.0, 1.0, 1)]
    )
    assert expected_calibration_error(bins) == pytest.approx((0.05 + 2 * 0.33 + 0) / 4)


def test_a_bundle_keeps_it() -> None:
    kept = calibration.describe({calibration.pair_name("text", "shape", "mean"): CURVE}, items=50)
    assert kept == {"items": 50, "pairs": {"text/shape/mean": asdict(CURVE)}}


def test_what_tells_nothing_is_refused() -> None:
    scores, relevant = world(50, 20, 0)
    with pytest.raises(CalibrationError, match="no higher"):
        fit(-scores, relevant, 20)
    with pytest.raises(CalibrationError, match="of matches"):
        fit(scores, np.zeros_like(relevant), 20)
    with pytest.raises(CalibrationError, match="no higher"):
        replace(CURVE, slope=float("nan"))
