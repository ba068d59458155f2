"""Curves for every pair that can be asked, and promises that hold on items that no curve was fitted on."""

from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pytest

from multifold.bundle import calibration
from multifold.bundle.calibration import CalibrationCurve
from multifold.metrics import bootstrap
from multifold.types import SIDES, Side
from tests.training.retrieval.test_directions import Plain
from training.evaluate import calibrate
from training.retrieval import directions
from training.retrieval.features import NO_FEATURES, HeldOutFeatures, make_bank, make_text_bank

SIZE, LENGTH = 120, 12


def world(seed: int, photos: int = 0, blur: float = 0.6) -> HeldOutFeatures:
    """Items are directions; what is seen and said of them is blurred."""
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((SIZE, LENGTH))
    items /= np.linalg.norm(items, axis=1, keepdims=True)

    def seen(count: int) -> np.ndarray:
        noise = rng.standard_normal((SIZE, count, LENGTH)) * blur / LENGTH**0.5
        return np.asarray((items[:, None] + noise).astype(np.float32).reshape(-1, LENGTH))

    captions = [[f"{item} {place}" for place in range(4)] for item in range(SIZE)]
    image = make_bank(seen(photos) if photos else NO_FEATURES, [photos] * SIZE)
    return HeldOutFeatures(captions, make_text_bank(seen(4), captions), image, make_bank(seen(6), [6] * SIZE))


Calibrated: TypeAlias = tuple[dict[str, CalibrationCurve], dict[str, Any]]


@pytest.fixture(scope="module")
def calibrated() -> Calibrated:
    """The curves of the world, and what they are worth."""
    return calibrate.calibrate(Plain(), world(0))


def test_every_pair_that_can_be_asked_has_a_curve(calibrated: Calibrated) -> None:
    curves, told = calibrated
    answered: tuple[Side, ...] = ("text", "shape")  # nobody has a photo to be found
    asked = {calibration.pair_name(*one) for one in product(SIDES, answered, calibrate.POOLS)}
    assert set(curves) == asked
    assert all("none" not in one for one in told.values())
    whole, _ = calibrate.calibrate(Plain(), world(0, photos=2))
    assert len(whole) == 2 * 9


@pytest.mark.parametrize("pair", ["text/shape/mean", "shape/text/max", "image/shape/mean"])
def test_a_promise_holds_where_the_right_items_were_removed(pair: str, calibrated: Calibrated) -> None:
    curves, _ = calibrated
    asked, target, pool = pair.split("/")
    fresh = directions.direction(
        Plain(), world(1), f"{asked}_to_{target}", "max" if pool == "max" else "mean"
    )
    strangers = np.where(fresh.relevant, -np.inf, fresh.scores).max(axis=1)
    for threshold in (0.1, 0.3, 0.5, 0.7):
        promised = curves[pair].false_accepts(threshold, SIZE)
        accepted = (strangers >= curves[pair].score(threshold, SIZE)).astype(np.float64)
        low, high = bootstrap(accepted, groups=fresh.items, level=0.99)
        assert low - 0.03 <= promised <= high + 0.03  # the promise was drawn, too


def test_trust_is_told_by_curves_of_other_items(calibrated: Calibrated) -> None:
    trust = calibrated[1]["text/shape/mean"]
    assert trust["queries"] == 4 * SIZE
    assert trust["shown"]["ece"] < 0.05
    assert sum(hits for _, _, hits in trust["shown"]["bins"]) == 4 * SIZE * calibrate.SHOWN
    assert sum(hits for _, _, hits in trust["first"]["bins"]) == 4 * SIZE
    for row in trust["thresholds"]:
        _, low, high = row["counted"]
        assert low - 0.05 <= row["promised"] <= high + 0.05


def test_an_encoder_that_knows_nothing_gets_no_curve() -> None:
    """Whatever is left to chance may rise a little; what falls is refused, and said."""
    observed = world(0)
    turned = HeldOutFeatures(
        observed.captions,
        make_text_bank(-observed.text.features, observed.captions),
        observed.image,
        observed.shape,
    )
    curves, told = calibrate.calibrate(Plain(), turned)
    assert "text/shape/mean" not in curves
    assert "no higher" in told["text/shape/mean"]["none"]
    assert "shape/shape/mean" in curves
