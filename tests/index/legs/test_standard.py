"""Scores of any unit are compared with what others usually score."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.legs.standard import HIGHEST, LOWEST, TELLING, standardise


def plain(scores: list[float], known: list[float]) -> list[float]:
    """The same by plain loops."""
    middle = float(np.median(known))
    spread = max(1.4826 * float(np.median([abs(one - middle) for one in known])), float(np.std(known)) / 2)
    return [min(max((one - middle) / spread, LOWEST), HIGHEST) for one in scores]


@given(st.lists(st.integers(-100, 100), min_size=4, max_size=30, unique=True))
def test_it_is_what_plain_loops_say(numbers: list[int]) -> None:
    scores = np.array(numbers, np.float32)
    background = np.arange(len(scores)) % 2 == 0
    known = scores[background].tolist()
    assert standardise(scores, background) == pytest.approx(plain(scores.tolist(), known), abs=1e-3)


def test_what_is_missing_is_0_and_nothing_known_says_nothing() -> None:
    scores = np.array([0.1, 0.2, 0.3, 0.4, 0.5, np.nan, 9.0], np.float32)
    standard = standardise(scores, np.array([True] * 6 + [False]))
    assert (standard[2], standard[5], standard[6]) == (0, 0, HIGHEST)
    assert not standardise(scores, np.arange(7) == 0).any()
    assert len(standardise(scores[:0], np.zeros(0, np.bool_))) == 0


def test_scores_that_are_all_alike_are_0_and_others_go_to_the_ends() -> None:
    scores = np.array([2.0] * 8 + [1.0, 3.0], np.float32)
    assert standardise(scores, np.arange(10) < 8).tolist() == [0.0] * 8 + [LOWEST, HIGHEST]


def test_the_fewer_are_known_where_most_are_missing_the_less_a_deviation_counts() -> None:
    known = [0.1, 0.2, 0.4]
    scores = np.array([*known, *[np.nan] * 61], np.float32)
    background = np.ones(64, np.bool_)
    wanted = [one * len(known) / TELLING for one in plain(known, known)]
    assert standardise(scores, background)[:3] == pytest.approx(wanted, abs=1e-5)
    assert standardise(scores[:3], background[:3]) == pytest.approx(plain(known, known), abs=1e-5)
    half = np.array([*known, np.nan, np.nan, np.nan], np.float32)
    assert standardise(half, background[:6])[:3] == pytest.approx(plain(known, known), abs=1e-5)
