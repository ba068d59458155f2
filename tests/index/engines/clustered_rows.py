"""Rows in clusters with queries near them, and what an exact engine answers."""

import numpy as np

from index.engines.exact_engine import ExactEngine
from index.engines.faiss_engine import FaissEngine

DIM, COUNT = 32, 3000
RNG = np.random.default_rng(5)
CENTRES = RNG.standard_normal((40, DIM))
ROWS = (CENTRES[RNG.integers(40, size=COUNT)] + 0.4 * RNG.standard_normal((COUNT, DIM))).astype(np.float32)
QUERIES = (CENTRES + 0.5 * RNG.standard_normal((40, DIM))).astype(np.float32)


def reference() -> ExactEngine:
    exact = ExactEngine(DIM, "l2")
    exact.add(np.arange(COUNT), ROWS)
    return exact


def share_found(live: FaissEngine, exact: ExactEngine) -> float:
    return float(np.mean(live.search(QUERIES, 10)[0] >= exact.search(QUERIES, 10)[0][:, -1:]))
