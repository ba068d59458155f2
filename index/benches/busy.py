"""How long one search takes while others write: idle, during an ingest, and while rows are being sealed.

Wall time, for whoever waits asks in wall time; a machine that others use too makes all three longer.
"""

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from index.benches.data import Scene
from index.engines.faiss_engine import FaissEngine
from index.plan import Plan

TYPE = "HNSW32,SQ8"
SEARCHES = 2000
ARRIVING = 64  # rows that are written at once
PAUSE = 0.05  # seconds between two such writes


def latencies(args: argparse.Namespace, scene: Scene) -> Iterator[str]:
    """p50 and p99 of single searches in three states, idle before and after the others."""
    half = len(scene.rows) // 2
    plan = Plan(TYPE, "cpu", 0.95, seal_at=half, flat_below=0)
    engine = FaissEngine(args.dim, "ip", plan, ask=lambda _: scene.probes)
    engine.add(np.arange(half), scene.rows[:half])
    engine.settle()
    yield f"{half} rows sealed, as many arrive; {SEARCHES} searches of ten rows, one after the other.\n"
    yield "| state | p50 | p99 |\n|---|---|---|"
    yield _line("idle", engine, scene)
    with _meanwhile(lambda over: _ingest(engine, scene, half, over)):
        yield _line("rows arrive", engine, scene)
    engine.remove(np.arange(half, 2 * half))
    yield _line("idle", engine, scene)
    engine.add(np.arange(half, 2 * half), scene.rows[half : 2 * half])
    yield _line("rows are being sealed", engine, scene)
    engine.close()


def _line(name: str, engine: FaissEngine, scene: Scene) -> str:
    times = np.empty(SEARCHES)
    for turn in range(SEARCHES):
        query = scene.queries[turn % len(scene.queries)][None]
        start = time.perf_counter()
        engine.search(query, 10)
        times[turn] = time.perf_counter() - start
    middle, late = np.percentile(times, [50, 99]) * 1e3
    return f"| {name} | {middle:.2f} ms | {late:.2f} ms |"


def _ingest(engine: FaissEngine, scene: Scene, start: int, over: threading.Event) -> None:
    """Rows come in until the sealed ones are matched, or the searches are over."""
    for first in range(start, min(2 * start, len(scene.rows)) - ARRIVING, ARRIVING):
        if over.wait(PAUSE):
            return
        engine.add(np.arange(first, first + ARRIVING), scene.rows[first : first + ARRIVING])


@contextmanager
def _meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=work, args=[over])
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
