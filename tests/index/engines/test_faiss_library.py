"""The reduction ranks as the index score does, for every metric and any lengths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.engines import scoring
from index.engines.faiss_library import reduction_for
from multifold.types import Metric


def test_reduced_by_hand() -> None:
    rows = np.array([[3, 4], [0, 1]], np.float32)
    made = reduction_for("ip", 2, scoring.lengths(rows))
    assert (made.reach, made.lifted, made.width) == (5.0, True, 16)
    assert made.gallery(rows)[:, :3] == pytest.approx(np.array([[3, 4, 0], [0, 1, 24**0.5]]))
    assert made.queries(np.array([[0, 2]], np.float32))[0, :3] == pytest.approx([0, 5, 0])
    assert not made.queries(np.zeros((1, 2), np.float32)).any()


@pytest.mark.parametrize("metric", ["ip", "l2"])
@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    dim=st.integers(1, 40),
    unit=st.booleans(),
    size=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_distances_rank_as_scores_do(metric: Metric, seed: int, dim: int, unit: bool, size: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((50, dim)) * rng.uniform(0.1, 5, (50, 1))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True) if unit else rows).astype(np.float32)
    query = (rng.standard_normal(dim) * (size if metric == "ip" else 1)).astype(np.float32)
    made = reduction_for(metric, dim, scoring.lengths(rows))
    assert made.lifted == (metric == "ip" and not unit)
    near = ((made.gallery(rows).astype(np.float64) - made.queries(query[None])) ** 2).sum(axis=1)
    scores = scoring.exact_scores(metric, query, rows).astype(np.float64)
    order = np.argsort(near)
    slack = 1e-5 * np.abs(scores).max()
    assert (np.diff(scores[order]) <= slack).all()
