"""Weights under which the right items are likeliest: near the prior, and of vectors never below it."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from index.fit.kinds import (
    CAPTION,
    NAME,
    NO_TEXTS,
    PICTURE,
    QUOTE,
    STRANGE_WORDS,
    QuestionKind,
)
from index.fit.trials import Trial
from index.fit.weights import fit_weights, has_lone_captions, teaching
from index.legs.table import BARE, COLUMNS, LEGS
from index.search.model import PRIOR_SPREAD, Weights, prior_model
from index.search.scores import Scores
from multifold.types import Leg

PRIOR = prior_model("text").weights
COUNT = 12  # candidates


def place(name: str) -> int:
    return COLUMNS.index(name)


def trial(seed: int, telling: Mapping[str, float], kind: QuestionKind = CAPTION) -> Trial:
    """One of twelve candidates is right, and these legs say so by so much."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((COUNT, len(COLUMNS))).astype(np.float32)
    for name, amount in telling.items():
        values[0, place(name)] += amount
    everything, editions = np.ones(COUNT, np.bool_), np.arange(COUNT)
    scores = Scores(editions, {}, values, everything, 1.0, ~everything)
    return Trial(0, scores, everything, editions == 0, COUNT, kind)


def fitted(count: int, telling: Mapping[str, float], legs: Sequence[Leg] = LEGS) -> Weights:
    return fit_weights(PRIOR, [trial(seed, telling) for seed in range(count)], legs)


def test_a_leg_that_tells_gains_weight_the_more_the_more_questions_there_are() -> None:
    few, some, many = (fitted(count, {"shape": 3.0})[place("shape")] for count in (1, 8, 60))
    assert PRIOR[place("shape")] < few < some < many


def test_vectors_and_readers_stay_at_their_prior_weight_and_words_and_bare_pictures_may_fall() -> None:
    """All legs but one speak against what is right."""
    weights = fitted(40, {name: -2.0 for name in COLUMNS if name != "shape"})
    words = np.array([name.startswith("words") for name in COLUMNS])
    kept = ~words & ~BARE
    assert (weights[kept] >= PRIOR[kept]).all()
    assert weights[BARE].tolist() == pytest.approx([0.0] * 2, abs=1e-3)
    assert weights[words].tolist() == pytest.approx([0.0] * 3, abs=1e-3)
    assert (weights >= 0).all()


def test_legs_that_are_not_heard_weigh_nothing_and_without_questions_nothing_changes() -> None:
    weights = fitted(20, {"shape": 3.0}, ("text", "words"))
    others = np.array([name.split()[0] not in ("text", "words") for name in COLUMNS])
    assert not weights[others].any()
    assert not fitted(20, {"shape": 3.0}, ()).any()
    assert fit_weights(PRIOR, [], LEGS).tolist() == PRIOR.tolist()
    assert (
        fit_weights(PRIOR, [], ("text",)).tolist() == np.where(np.arange(len(COLUMNS)) < 3, PRIOR, 0).tolist()
    )


def test_no_step_away_makes_the_right_items_likelier_without_going_further_from_the_prior() -> None:
    trials = [trial(seed, {"shape": 2.0, "words": 1.0, "text": 0.5}) for seed in range(30)]
    found = fit_weights(PRIOR, trials, LEGS)

    def loss(weights: Weights) -> float:
        evidence = np.stack([one.scores.values @ weights for one in trials])
        likely = evidence[:, 0] - np.logaddexp.reduce(evidence, axis=1)
        return float(np.square((weights - PRIOR) / PRIOR_SPREAD).sum() / 2 - likely.sum())

    least = np.where([name.startswith("words") for name in COLUMNS], 0.0, PRIOR)
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = np.maximum(found + 0.02 * rng.standard_normal(len(COLUMNS)), least)
        assert loss(other) > loss(found) - 1e-3


def test_what_counts_is_a_caption_where_one_can_be_hidden() -> None:
    kinds = (NAME, STRANGE_WORDS, PICTURE, QUOTE)
    of_names = [trial(n, {}, kind) for n, kind in enumerate(kinds)]
    assert [one.kind for one in teaching(of_names)] == [PICTURE, QUOTE]
    assert [one.kind for one in teaching([*of_names, trial(9, {})])] == [*kinds, CAPTION]
    quotes = [trial(n, {"words": 2.0}, QUOTE) for n in range(5)]
    alone = fit_weights(PRIOR, quotes, LEGS)
    beside = fit_weights(PRIOR, [*quotes, trial(9, {})], LEGS)
    assert beside[place("words")] > alone[place("words")] > PRIOR[place("words")]


def test_lone_captions_teach_nothing() -> None:
    """Each asks for what says nothing meanwhile, or is asked with its own words."""
    kinds = (NO_TEXTS, STRANGE_WORDS, QUOTE, NAME)
    lone = [trial(n, {}, kind) for n, kind in enumerate(kinds)]
    assert has_lone_captions(lone)
    assert teaching(lone) == []
    beside_others = [*lone, trial(9, {}, CAPTION)]
    assert not has_lone_captions(beside_others)
    assert teaching(beside_others) == beside_others
