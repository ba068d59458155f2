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
    assert scoring.exact("ip", query, gallery).tolist() == [11, 9, -1]
    assert scoring.exact("l2", query, gallery).tolist() == [-12, 0, -12]
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
    fast = scoring.fast(metric, query[None], gallery, lengths)[0].astype(np.float64)
    exact = scoring.exact(metric, query, gallery).astype(np.float64)
    slack = [scoring.slack(metric, query, float(length)) for length in lengths]
    assert (np.abs(fast - exact) <= slack).all()


@pytest.mark.parametrize("metric", METRICS)
def test_a_score_does_not_depend_on_its_neighbours(metric: Metric) -> None:
    rng = np.random.default_rng(0)
    gallery = rng.standard_normal((57, 129)).astype(np.float32)
    query = rng.standard_normal(129).astype(np.float32)
    together = scoring.exact(metric, query, gallery)
    alone = [scoring.exact(metric, query, row[None])[0] for row in gallery]
    assert together.tolist() == alone
    places = rng.integers(0, 57, (2, 5000))  # several pieces
    at = scoring.exact_at(metric, np.stack([query, -query]), gallery, places)
    other = scoring.exact(metric, -query, gallery)
    assert at.tolist() == [together[places[0]].tolist(), other[places[1]].tolist()]
