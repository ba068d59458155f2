"""Scores by hand, and the promise that a fast score is never further off than its slack."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.engines import scoring
from multifold.types import Metric

METRICS: tuple[Metric, ...] = ("ip", "l2")


def test_scores_by_hand() -> None:
    query = np.array([1, 2, 2], np.float32)
    gallery = np.array([[3, 0, 4], [1, 2, 2], [-1, 0, 0]], np.float32)
    # 1·3 + 2·0 + 2·4 = 11; 1 + 4 + 4 = 9; -1.   (2² + 2² + 2²) = 12; 0; (2² + 2² + 2²) = 12.
    assert scoring.exact_scores("ip", query, gallery).tolist() == [11, 9, -1]
    assert scoring.exact_scores("l2", query, gallery).tolist() == [-12, 0, -12]
    assert scoring.lengths(gallery).tolist() == [5, 3, 1]


@pytest.mark.parametrize("metric", METRICS)
@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6), dim=st.integers(1, 300), size=st.sampled_from([1e-25, 1e-12, 1.0, 1e6, 1e15])
)
def test_a_fast_score_is_within_its_slack(metric: Metric, seed: int, dim: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    gallery = (rng.standard_normal((7, dim)) * rng.choice([size, 1.0], (7, 1)) / 5).astype(np.float32)
    query = (gallery[0] + rng.choice([0, 1e-4, 1]) * rng.standard_normal(dim)).astype(np.float32)
    lengths = scoring.lengths(gallery)
    fast = scoring.fast_scores(metric, query[None], gallery, lengths)[0].astype(np.float64)
    exact = scoring.exact_scores(metric, query, gallery).astype(np.float64)
    slack = [scoring.score_slack(metric, query, float(length)) for length in lengths]
    assert (np.abs(fast - exact) <= slack).all()


def test_a_distance_that_others_sum_number_by_number_is_within_their_slack() -> None:
    query, row = np.full(4096, 0.1, np.float32), np.zeros((1, 4096), np.float32)
    exact = float(scoring.exact_scores("l2", query, row)[0])
    error = abs(-float(np.cumsum((query - row[0]) ** 2, dtype=np.float32)[-1]) - exact)
    assert scoring.score_slack("l2", query, 0.0) < error < scoring.summed_slack("l2", query, 0.0)


def test_fast_scores_tell_rows_apart_for_a_query_that_is_far_away() -> None:
    rng = np.random.default_rng(0)
    query, gallery = rng.standard_normal((2, 512)), rng.standard_normal((1000, 512))
    far = (1e4 * query[0]).astype(np.float32)
    scores = scoring.exact_scores("l2", far, gallery.astype(np.float32))
    slack = scoring.score_slack("l2", far, float(np.linalg.norm(gallery, axis=1).max()))
    assert slack < scores.std() / 5


@pytest.mark.parametrize("size", [1e-25, 1.0, 1e15])
def test_cosines_by_plain_arithmetic(size: float) -> None:
    vectors = np.random.default_rng(0).standard_normal((9, 33))
    wanted = vectors @ vectors[0] / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(vectors[0]))
    rows = np.concatenate([vectors * size, np.zeros((1, 33))]).astype(np.float32)
    assert scoring.cosines(rows[0], rows) == pytest.approx([*wanted, 0.0], abs=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_a_score_does_not_depend_on_its_neighbours(metric: Metric) -> None:
    rng = np.random.default_rng(0)
    gallery = rng.standard_normal((57, 129)).astype(np.float32)
    query = rng.standard_normal(129).astype(np.float32)
    together = scoring.exact_scores(metric, query, gallery)
    alone = [scoring.exact_scores(metric, query, row[None])[0] for row in gallery]
    assert together.tolist() == alone
    places = rng.integers(0, 57, (2, 5000))  # several pieces
    at = scoring.exact_scores_at(metric, np.stack([query, -query]), gallery, places)
    other = scoring.exact_scores(metric, -query, gallery)
    assert at.tolist() == [together[places[0]].tolist(), other[places[1]].tolist()]


@pytest.mark.parametrize("metric", METRICS)
@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    dim=st.integers(1, 300),
    size=st.sampled_from([1e-12, 1.0, 1e6]),
    many=st.integers(0, 9),
)
def test_scores_are_sums_in_float64_that_are_rounded_once(
    metric: Metric, seed: int, dim: int, size: float, many: int
) -> None:
    rng = np.random.default_rng(seed)
    gallery = (rng.standard_normal((11, dim)) * rng.choice([size, 1.0], (11, 1))).astype(np.float32)
    queries = rng.standard_normal((3, dim)).astype(np.float32)
    places = rng.integers(0, 11, (3, many))
    for array in (gallery, queries, places):
        array.flags.writeable = False  # as rows of a file are
    found = scoring.exact_scores_at(metric, queries, gallery, places)
    rows, asked = gallery.astype(np.float64)[places], queries.astype(np.float64)[:, None]
    sums = -((rows - asked) ** 2).sum(axis=2) if metric == "l2" else (rows * asked).sum(axis=2)
    wanted = sums.astype(np.float32)
    # sums in float64 differ in their last bits, which decides the last bit in float32 once in many millions
    np.testing.assert_array_max_ulp(found, wanted, maxulp=1)


def test_rows_may_lie_in_any_order_of_memory() -> None:
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((40, 64)).astype(np.float32)
    places = rng.integers(0, 20, (2, 6))[:, ::2]
    found = scoring.exact_scores_at("ip", wide[:4:2, ::2], wide[::2, ::2], places)
    rows, queries = np.ascontiguousarray(wide[::2, ::2]), np.ascontiguousarray(wide[:4:2, ::2])
    assert found.tolist() == [
        scoring.exact_scores("ip", q, rows)[p].tolist() for q, p in zip(queries, places, strict=True)
    ]
