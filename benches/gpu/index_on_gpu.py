"""Our engine's types on either device, over the same rows, asked by one caller."""

import argparse
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
from jaxtyping import Float32

from benches.index.generated_vectors import VectorSet, measure_recall, sphere_vectors, true_thresholds
from benches.reporting import head, row, steady_seconds
from index.contracts import AUTO, FLAT, GPU_LADDER, IndexPlan
from index.engines import faiss_library
from index.engines.faiss_engine import FaissEngine
from multifold.types import Vectors

ON_CPU = (AUTO, "HNSW32,SQ8", FLAT)
LIMIT = 10
BATCHES = (16, 256)


def measure(args: argparse.Namespace) -> Iterator[str]:
    """A table for each number of rows."""
    types = args.types or [f"cpu:{name}" for name in ON_CPU]
    if not args.types and faiss_library.gpu_available():
        types += [f"gpu:{name}" for name in GPU_LADDER if name != FLAT]
    for rows in args.rows:
        vectors = sphere_vectors(rows, args.dim, args.queries)
        least = true_thresholds(vectors.rows, vectors.queries, LIMIT)
        yield f"{rows} rows of {args.dim}, {LIMIT} nearest\n"
        rates = (f"queries/s, {batch} at once" for batch in BATCHES)
        yield head("device", "type", "build", f"recall@{LIMIT}", "one query", *rates)
        for each in types:
            device, _, name = each.partition(":")
            yield measure_type(device, name, vectors, least)
        yield ""


def measure_type(
    device: str,
    type: str,  # noqa: A002
    vectors: VectorSet,
    least: Float32[np.ndarray, "q 1"],
) -> str:
    """A row of the table."""
    count, dim = vectors.rows.shape
    plan = IndexPlan(type, "gpu" if device == "gpu" else "cpu", seal_at=count)
    engine = FaissEngine(dim, "ip", plan, ask=lambda _: vectors.probes)
    begun = time.perf_counter()
    engine.add(np.arange(count), vectors.rows)
    engine.settle()
    seconds = time.perf_counter() - begun
    recall = measure_recall(vectors.rows, vectors.queries, engine.search(vectors.queries, LIMIT)[1], least)

    def search(turn: int, batch: int) -> object:
        return engine.search(queries_of(vectors, turn, batch), LIMIT)

    one, *rates = (batch / steady_seconds(partial(search, batch=batch)) for batch in (1, *BATCHES))
    (report,) = engine.reports()
    engine.close()
    shown = (f"{rate:.0f}" for rate in rates)
    return row(device, report.type, f"{seconds:.1f} s", f"{recall:.3f}", f"{1e3 / one:.2f} ms", *shown)


def queries_of(vectors: VectorSet, turn: int, batch: int) -> Vectors:
    """Some of the queries, others in the next turn."""
    start = turn * batch % max(1, len(vectors.queries) - batch + 1)
    return vectors.queries[start : start + batch]
