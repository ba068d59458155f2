"""A logistic curve is the likeliest one near its prior, and is found from anywhere."""

import numpy as np
import pytest

from multifold.logistic import Step, Weights, fit_logistic, moments, newton, softmax, steps_down, steps_until

FACTS = 4
SIZE = 6
LEAST = np.where(np.arange(SIZE) < 4, 0.0, -np.inf)
RANDOM = np.random.default_rng(3)
ROOT = RANDOM.standard_normal((SIZE, SIZE))
BEND, PULL = ROOT @ ROOT.T + np.eye(SIZE), 9 * RANDOM.standard_normal(SIZE)
FREE = np.zeros(FACTS, np.bool_)


def drawn(truth: np.ndarray, rows: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Facts, and what is right of them by a curve."""
    random = np.random.default_rng(0)
    facts = random.standard_normal((rows, FACTS))
    return facts, random.random(rows) < 1 / (1 + np.exp(-facts @ truth))


def test_a_curve_is_found_again() -> None:
    truth = np.array([1.0, -0.5, 0.0, 2.0])
    facts, right = drawn(truth)
    curve = fit_logistic(facts, right, np.ones(len(facts)), np.zeros(FACTS), 10.0, FREE)
    assert curve == pytest.approx(truth, abs=0.1)


def test_a_few_rows_say_little_against_the_prior() -> None:
    facts, right = drawn(np.array([3.0, 3.0, 3.0, 3.0]), 5)
    prior = np.array([-1.0, 0.0, 1.0, 0.5])
    assert fit_logistic(facts, right, np.ones(5), prior, 0.01, FREE) == pytest.approx(prior, abs=0.01)


def test_what_counts_twice_is_there_twice() -> None:
    facts, right = drawn(np.array([1.0, -0.5, 0.0, 2.0]), 200)
    twice = np.concatenate([facts, facts[:50]]), np.concatenate([right, right[:50]])
    counts = np.where(np.arange(200) < 50, 2.0, 1.0)
    some = fit_logistic(facts, right, counts, np.zeros(FACTS), 1.0, FREE)
    assert some == pytest.approx(fit_logistic(*twice, np.ones(250), np.zeros(FACTS), 1.0, FREE), abs=1e-3)


def test_a_fact_of_which_more_never_makes_less_likely() -> None:
    facts, right = drawn(np.array([-1.0, 0.5, 0.0, 1.0]))
    rising = np.array([True, True, False, False])
    curve = fit_logistic(facts, right, np.ones(len(facts)), np.full(FACTS, 0.3), 10.0, rising)
    assert curve[0] == 0
    without = fit_logistic(facts[:, 1:], right, np.ones(len(facts)), np.full(3, 0.3), 10.0, rising[1:])
    assert curve[1:] == pytest.approx(without, abs=1e-3)  # the others are as likely as can be without it


def test_facts_far_from_what_the_prior_expects_do_not_throw_it_off() -> None:
    """Plain steps of Newton's method go back and forth here, ever farther."""
    facts = np.array([[8.0, 1.0, 0.0, 0.0], [9.0, 1.0, 0.0, 0.0], [-8.0, 1.0, 0.0, 0.0]] * 100)
    right = np.array([False, True, False] * 100)
    prior = np.array([4.0, 6.0, 0.0, 0.0])
    curve = fit_logistic(facts, right, np.ones(300), prior, 3.0, FREE)
    chances = 1 / (1 + np.exp(-facts @ curve))
    assert chances.mean() == pytest.approx(right.mean(), abs=0.01)


def height(weights: Weights) -> float:
    return float(weights @ BEND @ weights / 2 - PULL @ weights)


@pytest.mark.parametrize("step", [steps_until(1e-9, LEAST), steps_down(height, LEAST)])
def test_no_weight_falls_below_its_least_value_and_the_others_are_where_nothing_slopes(step: Step) -> None:
    found = newton(np.full(SIZE, 2.0), lambda weights: (BEND @ weights - PULL, BEND), LEAST, step)
    slope, kept = BEND @ found - PULL, found <= LEAST
    assert (found >= LEAST).all()
    assert 0 < kept.sum() < 4
    assert slope[~kept] == pytest.approx(0, abs=1e-3)
    assert (slope[kept] > 0).all()


def test_the_slope_and_the_bend_of_one_among_several_are_those_of_its_likelihood() -> None:
    values, counts = RANDOM.standard_normal((7, 5, 3)), RANDOM.random(7) + 0.5

    def likelihood(weights: Weights) -> float:
        return float(counts @ np.logaddexp.reduce(values @ weights, axis=1))

    weights, small = np.array([0.3, -0.2, 0.1]), 1e-4
    mean, bend = moments(values, softmax(values @ weights), counts)
    for place, along in enumerate(small * np.eye(3)):
        rise = (likelihood(weights + along) - likelihood(weights - along)) / (2 * small)
        assert rise == pytest.approx(counts @ mean[:, place], abs=1e-6)
        there = [
            counts @ moments(values, softmax(values @ (weights + way)), counts)[0] for way in (along, -along)
        ]
        assert (there[0] - there[1]) / (2 * small) == pytest.approx(bend[place], abs=1e-6)
