"""How long one search takes while others write: idle, and while rows arrive, are sealed and are merged.

Times are wall times, as users wait in; other work on the machine makes all of them longer.
"""

import argparse
import threading
import time
from collections.abc import Iterator

import numpy as np

from benches.index.generated_vectors import VectorSet
from benches.reporting import head, row, time_calls
from index.contracts import CPU_LADDER, IndexPlan
from index.engines.faiss_engine import FaissEngine

TYPES = CPU_LADDER[:2]
SEARCHES = 2000
ARRIVING = 64  # rows that are written at once
PAUSE = 0.05  # seconds from one such write to the next


def measure_latencies(args: argparse.Namespace, vectors: VectorSet) -> Iterator[str]:
    """p50 and p99 of single searches, until the last row of a fifth is sealed; idle before and after."""
    first = len(vectors.rows) * 4 // 5
    new, rate = len(vectors.rows) - first, f"{ARRIVING / PAUSE:.0f} rows a second arrive"
    for name in TYPES:
        engine = FaissEngine(args.dim, "ip", IndexPlan(name, "cpu", 0.95), ask=lambda _: vectors.probes)
        engine.add(np.arange(first), vectors.rows[:first])
        engine.settle()
        sealed = ", ".join(sorted({report.type for report in engine.reports()}))
        yield f"{first} rows sealed ({sealed}); searches of ten rows, one by one, until {new} more are.\n"
        yield head("state", "seconds", "searches", "p50", "p99")
        yield _line("idle", engine, vectors)
        yield _line(rate, engine, vectors, (first, ARRIVING, PAUSE))
        yield _line("idle", engine, vectors)
        engine.remove(np.arange(first, first + new))
        engine.settle()
        yield _line(f"{new} rows arrive at once", engine, vectors, (first, new, 0.0))
        yield ""
        engine.close()


def _line(
    name: str, engine: FaissEngine, vectors: VectorSet, arriving: tuple[int, int, float] | None = None
) -> str:
    """Searches while rows arrive: from which on, how many at once, and the seconds between."""
    thread = threading.Thread(
        target=_ingest, args=(engine, vectors, *(arriving or (len(vectors.rows), 1, 0.0)))
    )
    thread.start()
    start, times = time.perf_counter(), list[float]()
    while len(times) < SEARCHES or thread.is_alive():
        query = vectors.queries[len(times) % len(vectors.queries)][None]
        times += time_calls(lambda _: engine.search(query, 10), 1)  # noqa: B023
    middle, late = (f"{one * 1e3:.2f} ms" for one in np.percentile(times, [50, 99]))
    return row(name, f"{time.perf_counter() - start:.0f}", len(times), middle, late)


def _ingest(engine: FaissEngine, vectors: VectorSet, start: int, size: int, pause: float) -> None:
    begun = time.perf_counter()
    for turn, first in enumerate(range(start, len(vectors.rows), size)):
        time.sleep(max(0.0, begun + turn * pause - time.perf_counter()))
        ids = np.arange(first, min(first + size, len(vectors.rows)))
        engine.add(ids, vectors.rows[ids])
    engine.settle()
