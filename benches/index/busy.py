"""How long one search takes while others write: idle, and while rows arrive, are sealed and are merged.

Times are wall times, as users wait in; other work on the machine makes all of them longer.
"""

import argparse
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np

from benches.index.generated_vectors import VectorSet
from benches.reporting import head, row
from index.contracts import CPU_LADDER, IndexPlan
from index.engines.faiss_engine import FaissEngine

TYPES = CPU_LADDER[:2]
SEARCHES = 2000
ARRIVING = 64  # rows that are written at once
PAUSE = 0.05  # seconds from one such write to the next


def measure_latencies(args: argparse.Namespace, scene: VectorSet) -> Iterator[str]:
    """p50 and p99 of single searches, until the last row of a fifth is sealed; idle before and after."""
    for name in TYPES:
        plan = IndexPlan(name, "cpu", 0.95)
        yield from _table(FaissEngine(args.dim, "ip", plan, ask=lambda _: scene.probes), scene)


def _table(engine: FaissEngine, scene: VectorSet) -> Iterator[str]:
    first = len(scene.rows) * 4 // 5
    new = len(scene.rows) - first
    engine.add(np.arange(first), scene.rows[:first])
    engine.settle()
    sealed = ", ".join(sorted({report.type for report in engine.reports()}))
    yield f"{first} rows sealed ({sealed}); searches of ten rows, one by one, until {new} more are.\n"
    yield head("state", "seconds", "searches", "p50", "p99")
    yield _line("idle", engine, scene)
    rate = f"{ARRIVING / PAUSE:.0f} rows a second arrive"
    yield _line(rate, engine, scene, lambda: _ingest(engine, scene, first))
    yield _line("idle", engine, scene)
    engine.remove(np.arange(first, first + new))
    engine.settle()
    yield _line(f"{new} rows arrive at once", engine, scene, lambda: _ingest(engine, scene, first, new, 0))
    yield ""
    engine.close()


def _line(
    name: str, engine: FaissEngine, scene: VectorSet, meanwhile: Callable[[], None] | None = None
) -> str:
    thread = threading.Thread(target=meanwhile)
    thread.start()
    start, times = time.perf_counter(), list[float]()
    while len(times) < SEARCHES or thread.is_alive():
        query = scene.queries[len(times) % len(scene.queries)][None]
        before = time.perf_counter()
        engine.search(query, 10)
        times.append(time.perf_counter() - before)
    middle, late = np.percentile(times, [50, 99]) * 1e3
    spent = time.perf_counter() - start
    return row(name, f"{spent:.0f}", len(times), f"{middle:.2f} ms", f"{late:.2f} ms")


def _ingest(
    engine: FaissEngine, scene: VectorSet, start: int, size: int = ARRIVING, pause: float = PAUSE
) -> None:
    begun = time.perf_counter()
    for turn, first in enumerate(range(start, len(scene.rows), size)):
        time.sleep(max(0.0, begun + turn * pause - time.perf_counter()))
        ids = np.arange(first, min(first + size, len(scene.rows)))
        engine.add(ids, scene.rows[ids])
    engine.settle()
