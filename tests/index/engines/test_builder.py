"""Queries that segments are measured with: the encoder's own probes, else what other sides hold."""

import numpy as np
import pytest

from index.contracts import IndexEngine
from index.engines.builder import MIN_QUERIES, real_queries
from index.engines.exact_engine import ExactEngine
from multifold.types import Features, Side
from tests.index.spaces import FEATURE, SPACE, Lorentz


def test_queries_come_from_probes_then_from_other_sides() -> None:
    probes: dict[Side, Features] = {"text": np.ones((40, FEATURE), np.float32)}
    seen = ExactEngine(FEATURE, "ip")
    seen.add(np.arange(50), np.eye(FEATURE, dtype=np.float32)[np.zeros(50, int)])
    stored: dict[tuple[Side, str], IndexEngine] = {("shape", "observation"): seen}
    asked = real_queries(SPACE, "shape", 32, probes, stored)  # type: ignore[arg-type]
    assert asked == pytest.approx(np.full((32, FEATURE), 0.5))
    assert real_queries(SPACE, "text", 32, probes, {}) is None
    told = real_queries(SPACE, "text", 40, probes, stored)  # type: ignore[arg-type]
    assert told is not None
    assert told.tolist() == np.eye(FEATURE)[[0] * 40].tolist()
    assert real_queries(SPACE, "text", MIN_QUERIES - 1, probes, stored) is None  # type: ignore[arg-type]
    signed = real_queries(Lorentz(FEATURE + 1), "shape", 32, probes, {})
    assert signed is not None
    assert (signed[:, -1] < 0).all()
