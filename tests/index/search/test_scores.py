"""What legs say adds up as plain arithmetic has it, and the background gains nothing."""

import numpy as np
import pytest

from index.legs.table import COLUMNS, COLUMNS_OF, LEGS
from index.search.model import SideModel, prior_model
from index.search.scores import Scores, write_ratios


def scored(
    values: dict[str, np.ndarray], present: np.ndarray, background: np.ndarray, heard: float
) -> Scores:
    """What one leg says of so many items, of which some lack it."""
    (name, column), count = next(iter(values.items())), len(present)
    weighted = np.zeros((count, len(COLUMNS)), np.float32)
    weighted[:, COLUMNS.index(name)] = column
    raw = np.zeros((count, 2), np.float32)
    raw[~present, 0] = np.nan
    bare = np.zeros(count, np.bool_)
    return Scores(np.arange(count), {name: raw}, weighted, background, 1.0, bare, heard)


def test_the_ratios_are_what_plain_arithmetic_says() -> None:
    """The background gains nothing; its best may be meant, and one that scores nothing stands for it."""
    column, present = np.random.default_rng(0).standard_normal(64), np.arange(64) < 60
    column[~present] = 0.0
    scores = scored({"shape": column.astype(np.float32)}, present, np.ones(64, np.bool_), 1.0)
    ratios = scores.ratios(SideModel(np.where(np.array(COLUMNS) == "shape", 0.5, 0.0)))
    said = 0.5 * column.astype(np.float32)
    others = np.delete(said[:60], said[:60].argmax())
    level = np.log((np.exp(others).sum() + 1) / (len(others) + 1))
    wanted = np.zeros((64, len(LEGS)))
    wanted[:60, LEGS.index("shape")] = said[:60] - level
    assert ratios == pytest.approx(wanted, abs=1e-6)


def plain_ratios(scores: Scores, model: SideModel) -> np.ndarray:
    """The same by arrays, leg by leg."""
    ratios, weights = np.zeros(scores.present.shape), model.weights_for(scores.strange)
    others = np.flatnonzero(scores.background)
    said = [scores.values[:, COLUMNS_OF[leg]].astype(np.float64) @ weights[COLUMNS_OF[leg]] for leg in LEGS]
    others = np.delete(others, np.sum(said, axis=0)[others].argmax()) if len(others) else others
    for place, one in enumerate(said):
        known = others[scores.present[others, place]]
        level = np.log((np.exp(one[known]).sum() + 1) / (len(known) + 1))
        ratios[:, place] = np.where(scores.present[:, place], one - level, one)
    return ratios


@pytest.mark.parametrize(("items", "background"), [(0, 0), (1, 0), (1, 1), (2, 2), (40, 0), (300, 256)])
def test_the_ratios_of_all_legs_are_what_arrays_say(items: int, background: int) -> None:
    rng = np.random.default_rng(items)
    raw, values = {}, rng.standard_normal((items, len(COLUMNS))).astype(np.float32)
    for leg in LEGS:
        raw[leg] = np.where(rng.random(items) < 0.3, np.nan, rng.random(items))[:, None].repeat(3, axis=1)
        values[np.isnan(raw[leg][:, 0]), COLUMNS_OF[leg]] = 0.0
        raw[leg][:, 1] = 0.0  # nothing is the very thing that asks
    raw = {leg: said.astype(np.float32) for leg, said in raw.items()}
    scores = Scores(
        np.arange(items), raw, values, np.arange(items) < background, 1.0, np.zeros(items, np.bool_)
    )
    model = prior_model("text")
    assert scores.ratios(model) == pytest.approx(plain_ratios(scores, model), abs=1e-12)
    assert not np.isnan(scores.ratios(model)).any()


def test_a_leg_has_any_number_of_columns() -> None:
    rng = np.random.default_rng(0)
    values, present = rng.standard_normal((9, 6)).astype(np.float32), np.ones((9, 3), np.bool_)
    weights, legs = rng.standard_normal(6), np.array([0, 1, 1, 1, 1, 2])
    ratios = np.zeros((9, 3))
    write_ratios(values, weights, legs, present, np.zeros(9, np.bool_), ratios)
    said = values * weights
    wanted = np.stack([said[:, 0], said[:, 1:5].sum(axis=1), said[:, 5]], axis=1)
    assert ratios == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("among", [False, True])
def test_what_is_meant_is_no_background(among: bool) -> None:
    column, background = np.zeros(10, np.float32), np.ones(10, np.bool_)
    column[3], background[3] = 20.0, among
    scores = scored({"words": column}, np.ones(10, np.bool_), background, 1.0)
    ratios = scores.ratios(prior_model("text"))[:, LEGS.index("words")]
    assert ratios[3] == pytest.approx(6.0)
    assert np.delete(ratios, 3) == pytest.approx(0.0)


@pytest.mark.parametrize(("heard", "ranked"), [(1.0, False), (0.7, False), (0.3, True), (0.0, True)])
def test_queries_whose_words_nothing_has_have_weights_of_their_own(heard: float, ranked: bool) -> None:
    everything = np.ones(100, np.bool_)
    scores = scored({"shape": np.linspace(0, 5, 100, dtype=np.float32)}, everything, everything, heard)
    evidence = scores.ratios(SideModel(np.where(np.array(COLUMNS) == "words", 0.5, 0.0))).sum(axis=1)
    assert (evidence.argmax() == 99 and np.ptp(evidence) > 0.05) == ranked
