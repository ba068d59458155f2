"""An index in use: rows come and go, filters leave few of them, vectors lie in files, and space is curved."""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benches.index import engines, generated_vectors
from benches.index.engines import ComparedEngine, Thresholds, build_engine
from benches.index.generated_vectors import VectorSet
from benches.reporting import head, row
from index.contracts import AUTO, CPU_LADDER, Ids, IndexPlan, Memory, Stored
from index.engines import exact_engine, faiss_library
from index.engines.exact_engine import RowView, exact_scores_at, view_of
from index.engines.faiss_engine import FaissEngine
from index.engines.faiss_index import FaissIndex, SearchSetting
from index.engines.faiss_library import L2Reduction, faiss
from index.engines.segments import search_once

TYPE = CPU_LADDER[0]
SHARES = (1.0, 0.5, 0.1, 0.03, 0.01, 0.001, 0.0001)
CURVATURES, RADII = (0.1, 1.0), (0.5, 1.0, 3.0)
CURVED_DIM = 65
EFFORT = 128
COLD = 128  # queries that come first


def true_thresholds(
    vectors: VectorSet, limit: int, rows: RowView | None = None, allowed: Ids | None = None
) -> Thresholds:
    """The score of the last of the true `limit` rows, for each query."""
    view = view_of(np.arange(len(vectors.rows)), vectors.rows) if rows is None else rows
    return exact_engine.nearest_rows("ip", view, vectors.queries, limit, allowed)[0][:, -1:]


def measure_changes(args: argparse.Namespace, vectors: VectorSet) -> Iterator[str]:
    """A clean index, one with a tenth of its rows deleted, and one with a tenth of them new as well."""
    engine = build_engine(vectors, TYPE, 0.99)
    rng, count = np.random.default_rng(2), len(vectors.rows)
    yield head("state", "recall@10", "time of one query, in batches of 16")
    yield _state("sealed", engine, vectors)
    engine.remove(rng.choice(count, count // 10, replace=False))
    yield _state("a tenth deleted", engine, vectors)
    fresh = generated_vectors.sphere_vectors(count // 10, args.dim, 1, seed=0).rows
    engine.add(np.arange(count, count + len(fresh)), fresh)
    yield _state("a tenth deleted, a tenth fresh", engine, vectors)
    engine.close()


def _state(name: str, engine: FaissEngine, vectors: VectorSet) -> str:
    rows = np.concatenate([part.rows.living()[1] for part in engine.parts])
    least = true_thresholds(vectors, 10, view_of(np.arange(len(rows)), rows))
    scores = engine.search(vectors.queries, 10)[0]
    (times,) = engines.time_in_turns([engines.our_engine(engine)], vectors.queries, 10, 16, 30)
    return f"| {name} | {np.mean(scores >= least):.3f} | {np.median(times) * 1e3:.2f} ms |"


def measure_filters(args: argparse.Namespace, vectors: VectorSet) -> Iterator[str]:
    engine = build_engine(vectors, TYPE, 0.99)
    rng, count = np.random.default_rng(3), args.rows
    yield head("allowed", "rows", "recall@10", "one query, p50")
    for share in SHARES:
        allowed = np.flatnonzero(rng.random(count) < share)
        least = true_thresholds(vectors, 10, allowed=allowed)
        scores = engine.search(vectors.queries, 10, allowed)[0]
        filtered = ComparedEngine("", lambda q, k, ids=allowed: engine.search(q, k, ids)[1])  # type: ignore[misc]
        (times,) = engines.time_in_turns([filtered], vectors.queries, 10, 1, 60)
        recall = float(np.mean(scores >= least))
        yield f"| {share:.2%} | {len(allowed)} | {recall:.3f} | {np.median(times) * 1e3:.2f} ms |"
    engine.close()


TIERS: dict[str, tuple[Memory, Stored]] = {
    "resident": ("resident", "float32"),
    "codes": ("codes", "float32"),
    "codes, float16": ("codes", "float16"),
}


def measure_memory(args: argparse.Namespace, vectors: VectorSet) -> Iterator[str]:
    """Everything in memory beside codes alone, and how searches begin when no vector was read before.

    Recall is that of rows which score enough as float32. What is exact scores all rows as they are stored.
    """
    count = len(vectors.rows)
    with tempfile.TemporaryDirectory() as folder:
        plans = [IndexPlan(AUTO, "cpu", 0.99, count, memory=one, stored=kind) for one, kind in TIERS.values()]
        home = Path(folder) / "sealed"
        built = [FaissEngine(args.dim, "ip", one, ask=lambda _: vectors.probes, home=home) for one in plans]
        for engine in built:
            engine.add(np.arange(count), vectors.rows)
            engine.settle()
            engine.served.wait(np.inf)  # no answer is checked beside
            yield f"{engine.reports()[0]}\n"
        figures = "recall", "exact", "one query, p50", "p99", "in batches of 16", "rows read a query"
        yield head("k", "memory", *figures)
        for limit in (10, 100):
            least = true_thresholds(vectors, limit)
            racers = [engines.our_engine(engine) for engine in built]
            ones, many = (
                engines.time_in_turns(racers, vectors.queries, limit, *how) for how in ((1, 300), (16, 60))
            )
            for memory, engine, one, batch in zip(TIERS, built, ones, many, strict=True):
                before = engine.read_count.rows
                found = engine.search(vectors.queries, limit)[1]
                read = (engine.read_count.rows - before) / len(vectors.queries)
                middle, late = np.percentile(one, [50, 99]) * 1e3
                times = f"{middle:.2f} ms", f"{late:.2f} ms", f"{np.median(batch) * 1e3:.2f} ms"
                every = engine.search(vectors.queries, limit, exact=True)[1]
                recalls = (f"{_recall(vectors, ids, least):.3f}" for ids in (found, every))
                yield row(limit, memory, *recalls, *times, f"{read:.0f}")
        saved = Path(folder) / "rows"
        built[1].save(saved)
        for engine in built:
            engine.close()
        yield "\n" + head("wall time", "p50", "p95", "from the disk a query")
        yield from _cold(saved, FaissEngine(args.dim, "ip", plans[1]), vectors)


def _recall(vectors: VectorSet, ids: Ids, least: Thresholds) -> float:
    return float(np.mean(exact_scores_at("ip", vectors.queries, vectors.rows, ids) >= least))


def _cold(saved: Path, engine: FaissEngine, vectors: VectorSet) -> Iterator[str]:
    """Searches after nothing of the files was left in memory, and the same once more."""
    for path in saved.parent.glob(f"{saved.name}*"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    begun = time.perf_counter()
    engine.load(saved)
    _seconds(engine, vectors, 1)
    yield row("opened, and the first query", f"{time.perf_counter() - begun:.2f} s", "", "")
    for name in ("cold", "again"):
        before = engine.read_count.bytes
        middle, late = np.percentile(_seconds(engine, vectors, COLD), [50, 95]) * 1e3
        read = (engine.read_count.bytes - before) / COLD / 1e3
        yield row(name, f"{middle:.2f} ms", f"{late:.2f} ms", f"{read:.0f} kB")
    engine.close()


def _seconds(engine: FaissEngine, vectors: VectorSet, count: int) -> list[float]:
    times = []
    for query in vectors.queries[-count:]:
        begun = time.perf_counter()
        engine.search(query[None], 10)
        times.append(time.perf_counter() - begun)
    return times


def measure_lorentz(args: argparse.Namespace, _: VectorSet) -> Iterator[str]:
    """HNSW on hyperboloids, direct and through the reduction, and our engine's choice."""
    yield f"{args.rows} points with {CURVED_DIM} coordinates; a graph of 32 links, efSearch {EFFORT}.\n"
    yield head("curvature", "radius", "as they are", "reduced", "our engine at 0.99")
    for curvature in CURVATURES:
        for radius in RADII:
            vectors = generated_vectors.lorentz_vectors(
                args.rows, CURVED_DIM, args.queries, curvature, radius
            )
            rows, least = view_of(np.arange(args.rows), vectors.rows), true_thresholds(vectors, 10)
            reduced = faiss_library.reduction_for("ip", CURVED_DIM, rows.lengths)
            plain = L2Reduction(CURVED_DIM, None, lifted=False)
            recalls = [_graph(rows, vectors, least, how) for how in (plain, reduced)]
            engine = build_engine(vectors, TYPE, 0.99)
            ours = np.mean(engine.search(vectors.queries, 10)[0] >= least)
            (report,) = engine.reports()
            yield row(curvature, radius, *(f"{one:.3f}" for one in recalls), f"{ours:.3f} ({report.type})")
            engine.close()


def _graph(rows: RowView, vectors: VectorSet, least: Thresholds, how: L2Reduction) -> float:
    """Recall of a graph of inner products, or of distances where rows were lifted."""
    metric = faiss.METRIC_L2 if how.lifted else faiss.METRIC_INNER_PRODUCT
    ann = FaissIndex("HNSW32", how, faiss.IndexHNSWFlat(how.width, 32, metric))
    ann.index.add(how.gallery(rows.vectors))
    setting = SearchSetting(10, EFFORT, EFFORT, 0.0, 0.0)
    return float(np.mean(search_once(ann, "ip", rows, vectors.queries, setting)[0] >= least))
