"""Engines that are built of generated vectors, and what they find of what is there."""

import numpy as np

from benches.index.generated_vectors import VectorSet
from index.contracts import Ids, IndexPlan
from index.engines.exact_engine import ExactEngine
from index.engines.faiss_engine import FaissEngine
from multifold.types import Metric

MARGIN = 0.03  # other queries than those that it was tuned with


def built(scene: VectorSet, metric: Metric, plan: IndexPlan, *, asked: bool = True) -> FaissEngine:
    ask = (lambda _: scene.probes) if asked else (lambda _: None)
    engine = FaissEngine(scene.rows.shape[1], metric, plan, ask=ask)
    engine.add(np.arange(len(scene.rows)), scene.rows)
    engine.settle()
    return engine


def recall(engine: FaissEngine, scene: VectorSet, metric: Metric, limit: int, allowed: Ids | None) -> float:
    exact = ExactEngine(scene.rows.shape[1], metric)
    exact.add(np.arange(len(scene.rows)), scene.rows)
    last = exact.search(scene.queries, limit, allowed)[0][:, -1:]
    return float(np.mean(engine.search(scene.queries, limit, allowed)[0] >= last))
