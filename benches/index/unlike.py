"""Queries that are unlike the rows: what a fixed effort finds, and what looking further finds and costs."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from benches.index import engines
from benches.index.engines import ComparedEngine
from benches.index.generated_vectors import VectorSet
from benches.reporting import head, row
from index.contracts import IndexPlan
from index.engines import exact_engine
from index.engines.exact_engine import view_of
from index.engines.faiss_engine import FaissEngine
from index.engines.segments import Segment
from multifold.types import Vectors

CLUSTERS, SPREAD = 400, {"cosine": 0.5, "Lorentz": 0.3}
OTHERS = 60  # clusters that no row is of
SINGLES = 200


def unlike_scenes(rows: int, dim: int, queries: int) -> Iterator[tuple[str, Vectors, dict[str, Vectors]]]:
    """Rows of plain collections in clusters, and queries by kind; the first kind is like the rows."""
    for name in ("cosine", "Lorentz"):
        rng = np.random.default_rng(0)
        make = _unit if name == "cosine" else _lorentz
        centres, elsewhere = (rng.standard_normal((size, dim)) for size in (CLUSTERS, OTHERS))

        def drawn(
            centres: Vectors, count: int, rng: np.random.Generator = rng, spread: float = SPREAD[name]
        ) -> Vectors:
            near = centres[rng.integers(len(centres), size=count)]
            return np.asarray(near + spread * rng.standard_normal(near.shape))

        made = make(drawn(centres, rows), rng)
        kinds = {"like the rows": make(drawn(centres, queries), rng)}
        other = make(drawn(elsewhere, queries), rng)
        kinds["of other clusters"] = other
        if name == "Lorentz":
            kinds["of other clusters, time negated"] = other * np.array([1] * (dim - 1) + [-1], np.float32)
        yield name, made, kinds | _strange_queries(made, queries, rng)


def _strange_queries(rows: Vectors, count: int, rng: np.random.Generator) -> dict[str, Vectors]:
    some, others = rows[rng.integers(len(rows), size=(2, count))]
    length = np.linalg.norm(rows, axis=1).mean()
    noise = rng.standard_normal(some.shape)
    noise *= length / np.linalg.norm(noise, axis=1, keepdims=True)
    one_hot = length * np.eye(rows.shape[1])[rng.integers(rows.shape[1], size=count)]
    kinds = {
        "sums of two rows": some + others,
        "noise": noise,
        "far outliers": 20 * some + 50 * noise,
        "rows a hundred times as long": 100 * some,
        "one number, the others 0": one_hot,
        "negated rows": -some,
    }
    return {kind: np.asarray(queries, np.float32) for kind, queries in kinds.items()}


def _unit(points: Vectors, _: np.random.Generator) -> Vectors:
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True), np.float32)


def _lorentz(points: Vectors, rng: np.random.Generator) -> Vectors:
    """Points of the hyperboloid, compared by inner product as they are."""
    ways = points[:, 1:] / np.linalg.norm(points[:, 1:], axis=1, keepdims=True)
    space = ways * np.sinh(rng.uniform(1, 1.2, (len(points), 1)))
    time = np.sqrt(1 + (space**2).sum(axis=1, keepdims=True))
    return np.asarray(np.concatenate([space, time], axis=1), np.float32)


def measure_unlike(args: argparse.Namespace, _: VectorSet) -> Iterator[str]:
    """Each kind of queries, with the effort alone that ordinary ones need, and as they are answered now."""
    yield head("rows", "queries", "recall before", "worst", "one query", "recall now", "worst", "one query")
    for name, rows, kinds in unlike_scenes(args.rows, args.dim, args.queries):
        count = len(rows)
        engine = FaissEngine(args.dim, "ip", IndexPlan(device="cpu", seal_at=count))
        engine.add(np.arange(count), rows)
        engine.settle()
        part, (report,) = engine.parts[0], engine.reports()
        for kind, queries in kinds.items():
            truth = exact_engine.nearest_rows("ip", view_of(np.arange(count), rows), queries, 10)[0][:, -1:]
            racers = [
                ComparedEngine("", partial(_answers, part, plain=plain), 0.0, 0.0) for plain in (True, False)
            ]
            times = engines.time_in_turns(racers, queries, 10, 1, SINGLES)
            cells: list[str] = []
            for plain, spent in zip((True, False), times, strict=True):
                shares = (_answers(part, queries, 10, plain=plain) >= truth).mean(axis=1)
                cells += [f"{shares.mean():.3f}", f"{shares.min():.1f}", f"{spent.mean() * 1e6:.0f} µs"]
            yield row(name, kind, *cells)
        yield row(f"{name}: {report}", *[""] * 7)
        engine.close()


def _answers(part: Segment, queries: Vectors, limit: int, *, plain: bool) -> Vectors:
    assert part.ann is not None
    how = part.ann.setting(limit)
    return part.search("ip", queries, limit, None, replace(how, doubt=None) if plain else how)[0]
