"""Metrics against numbers worked by hand, a slow and plain count, and what chance predicts.

The working of golden/metrics.json, with the discounts d(rank) = 1 / log2(1 + rank):
d(1) = 1, d(2) = 0.63093, d(3) = 0.5, d(4) = 0.43068, d(5) = 0.38685; sums of the first 1 to 5 of them:
1, 1.63093, 2.13093, 2.56161, 2.94846.

one right, no tie: 0.9 stands before 0.5, so rank 2; NDCG = d(2) / 1 from k = 2 on.
one right, all tie: three wrong ones stand before it, so rank 4; NDCG@5 = d(4), and @3 nothing.
three right, no tie: ranks 2, 4, 5. @3: d(2) / 2.13093. @5: (d(2) + d(4) + d(5)) / 2.13093 = 0.67973.
three right, two tie with a wrong one: the wrong 2 stands first, the right ones at 2, 3 and 4.
  @3: (d(2) + d(3)) / 2.13093 = 1.13093 / 2.13093. @5: (d(2) + d(3) + d(4)) / 2.13093 = 1.56161 / 2.13093.
five right, four among the first five: ranks 1, 3, 4, 5, 7. @1: 1 / 1. @3: (1 + 0.5) / 2.13093.
  @5: (1 + 0.5 + d(4) + d(5)) / 2.94846 = 2.31753 / 2.94846.
eight places back: rank 8, beyond every k of NDCG here and inside R@10 only.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from multifold import metrics
from multifold.metrics import (
    MetricError,
    bootstrap,
    chance_recall,
    ndcg_at_k,
    ranks,
    recall_at_k,
)

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "metrics.json").read_text())


def rankings(ties: bool = True) -> st.SearchStrategy[tuple[Any, Any]]:
    """Scores, full of ties if asked for, and masks with at least one right item a query."""

    def pair(shape: tuple[int, int]) -> st.SearchStrategy[tuple[Any, Any]]:
        value = st.integers(0, 4) if ties else st.floats(-10, 10, width=32)
        scores = arrays.arrays(np.float32, shape, elements=value.map(float), unique=not ties)
        masks = arrays.arrays(bool, shape).map(lambda mask: mask | (np.arange(shape[1]) == 0))
        return st.tuples(scores, masks)

    return st.tuples(st.integers(1, 6), st.integers(1, 9)).flatmap(pair)


def in_order(scores: Sequence[float], right: Sequence[bool]) -> list[bool]:
    """Whether each item is right, best first, wrong before right in a tie: the plain version."""
    return [hit for _, hit in sorted(zip((-s for s in scores), right, strict=True))]


@pytest.mark.parametrize("name", GOLDEN)
def test_numbers_worked_by_hand(name: str) -> None:
    case = GOLDEN[name]
    scores, relevant = np.array([case["scores"]], np.float32), [np.array(case["relevant"])]
    found = ranks(scores, relevant)
    assert found.tolist() == [case["rank"]]
    assert {k: recall_at_k(found, int(k))[0] for k in case["recall"]} == case["recall"]
    for k, expected in case["ndcg"].items():
        assert ndcg_at_k(scores, relevant, int(k))[0] == pytest.approx(expected, abs=1e-9)


@settings(max_examples=50)
@given(rankings(), st.integers(1, 12))
def test_equal_to_the_plain_count(ranking: tuple[Any, Any], k: int) -> None:
    scores, mask = ranking
    orders = [in_order(*row) for row in zip(scores.tolist(), mask.tolist(), strict=True)]
    assert ranks(scores, mask).tolist() == [order.index(True) + 1 for order in orders]
    for value, order in zip(ndcg_at_k(scores, mask, k), orders, strict=True):
        gains = sum(1 / math.log2(place + 2) for place, hit in enumerate(order[:k]) if hit)
        assert value == pytest.approx(gains / sum(1 / math.log2(i + 2) for i in range(min(sum(order), k))))


@settings(max_examples=50)
@given(rankings(), st.randoms())
def test_the_order_of_the_gallery_does_not_matter(ranking: tuple[Any, Any], random: Any) -> None:  # noqa: ANN401
    scores, mask = ranking
    order = random.sample(range(scores.shape[1]), scores.shape[1])
    lists = [np.flatnonzero(row) for row in mask]  # a mask and lists say the same
    np.testing.assert_array_equal(ranks(scores[:, order], mask[:, order]), ranks(scores, lists))
    np.testing.assert_allclose(ndcg_at_k(scores[:, order], mask[:, order], 5), ndcg_at_k(scores, mask, 5))


@settings(max_examples=50)
@given(rankings())
def test_a_tie_is_never_better_than_any_way_to_break_it(ranking: tuple[Any, Any]) -> None:
    scores, mask = ranking
    broken = scores + np.random.default_rng(0).uniform(0, 0.5, scores.shape).astype(np.float32)
    assert (ranks(scores, mask) >= ranks(broken, mask)).all()
    assert (ndcg_at_k(scores, mask, 5) <= ndcg_at_k(broken, mask, 5) + 1e-12).all()


@pytest.mark.parametrize("chunk", [1, 50, 10**9])
def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 9, (40, 30)).astype(np.float32)
    mask = rng.random((40, 30)) < 0.1
    mask[:, 3] = True
    expected = ranks(scores, mask), ndcg_at_k(scores, mask, 5), bootstrap(scores[:, 0])
    monkeypatch.setattr(metrics, "SCORES_A_STEP", chunk)
    for found, wanted in zip((ranks(scores, mask), ndcg_at_k(scores, mask, 5)), expected, strict=False):
        np.testing.assert_array_equal(found, wanted)
    assert bootstrap(scores[:, 0]) == pytest.approx(expected[2])


@pytest.mark.parametrize(
    ("right", "gallery", "k"), [(1, 13, 10), (2, 13, 10), (4, 13, 10), (3, 3, 1), (5, 400, 10)]
)
def test_the_recall_of_an_order_without_meaning(right: int, gallery: int, k: int) -> None:
    """As often as one of the right ones is among k that are drawn."""
    missed = math.comb(gallery - right, k) / math.comb(gallery, k)
    assert chance_recall(np.array([right, right]), gallery, k) == pytest.approx(1 - missed)
    both = chance_recall(np.array([right, gallery]), gallery, k)
    assert both == pytest.approx(1 - missed / 2)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(300):
        low, high = bootstrap((rng.random(200) < 0.3).astype(np.float64), samples=400, level=0.9, seed=trial)
        hits += low <= 0.3 <= high
    assert 0.85 <= hits / 300 <= 0.95
    values = rng.random(100)
    assert bootstrap(values, seed=5) == bootstrap(values, seed=5) != bootstrap(values, seed=6)
    assert bootstrap(np.full(9, 0.25)) == (0.25, 0.25)


def test_groups_that_agree_make_the_interval_wider() -> None:
    """Five copies of each value carry no more news than one: the interval of the groups is the honest one."""
    values = np.random.default_rng(4).random(200)
    copies, groups = np.repeat(values, 5), np.repeat(np.arange(200), 5)
    low, high = bootstrap(copies, groups=groups)
    assert (low, high) == pytest.approx(bootstrap(values), abs=1e-12)
    assert high - low > 2 * np.subtract(*bootstrap(copies)[::-1])


def test_few_measurements_have_the_interval_of_student() -> None:
    assert metrics.half_width([0.4, 0.5, 0.6]) == pytest.approx(4.303 * 0.1 / 3**0.5)
    many = [float(n % 2) for n in range(400)]
    assert metrics.half_width(many) == pytest.approx(1.96 * 0.5 / 20, rel=1e-2)


def test_groups_of_different_size_weigh_by_their_queries() -> None:
    values, groups = np.array([1.0, 1.0, 1.0, 0.0]), np.array([7, 7, 7, 2])
    low, high = bootstrap(values, groups=groups)
    assert (low, high) == (0.0, 1.0)
    middle = bootstrap(values, groups=groups, level=0.02)
    assert middle == pytest.approx((0.75, 0.75))


@pytest.mark.parametrize(
    ("right", "reason"),
    [
        ([[0], []], "query 1 has no right item"),
        ([[0], [3]], "not one of the 3"),
        ([[0], [-1]], "not one of the 3"),
        ([[0]], "2 queries, but right items of 1"),
    ],
)
def test_what_has_no_meaning_is_refused(right: list[list[int]], reason: str) -> None:
    scores = np.ones((2, 3), np.float32)
    with pytest.raises(MetricError, match=reason):
        ranks(scores, [np.array(items, int) for items in right])
    with pytest.raises(MetricError, match="not numbers"):
        ranks(scores * np.nan, np.ones((2, 3), bool))
    with pytest.raises(MetricError, match="k starts at 1"):
        ndcg_at_k(scores, np.ones((2, 3), bool), 0)
    for values in ([1.0, np.nan], []):
        with pytest.raises(MetricError, match="finite"):
            bootstrap(np.array(values, np.float64))
