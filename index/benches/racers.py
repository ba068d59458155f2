"""What is compared: our engine, and the same FAISS index bare; others.py has other people's."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Int64

from index.benches.data import Scene
from index.engines.ann import asking
from index.engines.faiss_engine import FaissEngine
from index.engines.faisslib import faiss
from index.plan import Plan
from multifold.types import Metric, Vectors

Thresholds: TypeAlias = Float32[np.ndarray, "q 1"]  # what the true last row scores
Search: TypeAlias = Callable[[Vectors, int], Int64[np.ndarray, "q k"]]


@dataclass(frozen=True)
class Racer:
    """One way to search, and what it took to get there."""

    name: str
    search: Search
    build_seconds: float
    bytes_per_row: float
    prepare: Callable[[], None] = lambda: None  # before its turn
    clock: Callable[[], float] = time.thread_time  # process_time where it has threads of its own


def engine_of(scene: Scene, type: str, recall: float, metric: Metric = "ip") -> FaissEngine:  # noqa: A002
    """Our engine over the scene's rows, sealed."""
    count, dim = scene.rows.shape
    plan = Plan(type, "cpu", recall, seal_at=count, flat_below=0)
    engine = FaissEngine(dim, metric, plan, ask=lambda _: scene.probes)
    engine.add(np.arange(count), scene.rows)
    engine.settle()
    return engine


def ours(engine: FaissEngine) -> Racer:
    """Our engine, as everybody calls it."""
    (report,) = engine.reports()
    return Racer(
        f"ours, {report.type}",
        lambda q, k: engine.search(q, k)[1],
        report.build_seconds,
        report.bytes_per_row,
    )


def bare(engine: FaissEngine, scene: Scene) -> Racer | None:
    """The very index that the engine built, with FAISS's own refinement at the same effort."""
    ann, (report,) = engine.parts[0].ann, engine.reports()
    if ann is None:
        return None
    rows = ann.reduction.gallery(scene.rows)
    refined = faiss.IndexRefineFlat(ann.index, faiss.swig_ptr(rows))

    def search(queries: Vectors, limit: int) -> Int64[np.ndarray, "q k"]:
        setting = ann.setting(limit)
        inner = asking(ann.index)(setting.effort, setting.candidates)
        both = faiss.IndexRefineSearchParameters(
            k_factor=setting.candidates / limit, **({} if inner is None else {"base_index_params": inner})
        )
        found: Int64[np.ndarray, "q k"] = refined.search(queries, limit, params=both)[1]
        return found

    return Racer(f"bare, {report.type},RFlat", search, report.build_seconds, report.bytes_per_row)


def recall_of(scene: Scene, answer: Int64[np.ndarray, "q k"], truth: Thresholds) -> float:
    """The share of the answer that scores as much as the true last row (inner product)."""
    scores = np.einsum("qkd,qd->qk", scene.rows[answer], scene.queries)
    return float(np.mean(scores >= truth - 1e-6))
