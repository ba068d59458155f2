"""Engines that are built of generated vectors, and what they find of what is there."""

from dataclasses import replace

import numpy as np

from benches.index.generated_vectors import VectorSet
from index.contracts import Ids, IndexPlan
from index.engines.cell_tuning import CellTuner
from index.engines.exact_engine import ExactEngine
from index.engines.faiss_engine import FaissEngine
from index.engines.search_setting import SearchSetting
from multifold.types import Metric, Vectors

TUNE = CellTuner.tune


def measure_ordinary_queries(tuner: CellTuner) -> tuple[SearchSetting, ...]:
    """What earlier versions did: all queries look into the cells that ordinary ones need."""
    return tuple(replace(one, ordinary=None, strange=None, far=None, hardest="") for one in TUNE(tuner))


MARGIN = 0.03  # other queries than those that it was tuned with


def exact_of(rows: Vectors, metric: Metric = "ip", ids: Ids | None = None) -> ExactEngine:
    """The plain engine of these rows, or of those with these ids."""
    exact = ExactEngine(rows.shape[1], metric)
    ids = np.arange(len(rows)) if ids is None else ids
    exact.add(ids, rows[ids])
    return exact


def built(scene: VectorSet, metric: Metric, plan: IndexPlan, *, asked: bool = True) -> FaissEngine:
    ask = (lambda _: scene.probes) if asked else (lambda _: None)
    engine = FaissEngine(scene.rows.shape[1], metric, plan, ask=ask)
    engine.add(np.arange(len(scene.rows)), scene.rows)
    engine.settle()
    return engine


def found(
    engine: FaissEngine, exact: ExactEngine, queries: Vectors, limit: int, allowed: Ids | None = None
) -> float:
    """The share of the true rows that an engine finds."""
    last = exact.search(queries, limit, allowed)[0][:, -1:]
    return float(np.mean(engine.search(queries, limit, allowed)[0] >= last))


def recall(
    engine: FaissEngine, scene: VectorSet, metric: Metric, limit: int, allowed: Ids | None = None
) -> float:
    return found(engine, exact_of(scene.rows, metric), scene.queries, limit, allowed)
