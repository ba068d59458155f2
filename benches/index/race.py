"""The work of `multifold bench race`."""

import argparse
import importlib.util
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from benches.index import generated_vectors
from benches.index.generated_vectors import measure_recall, true_thresholds
from benches.index.racers import RACERS, Places, Racer
from benches.reporting import head, row, time_calls
from benches.service.running_service import resident_bytes
from index.contracts import Ids
from multifold.bundle.canary import open_encoder
from multifold.types import Vectors

SCENES = {
    "clusters": generated_vectors.sphere_vectors,
    "uneven": generated_vectors.uneven_vectors,
    "surface": generated_vectors.surface_vectors,
    "noise": generated_vectors.noise_vectors,
}
LIMIT = 10
RECALLS = (0.95, 0.99)
NUMBERS = 1000
BOUNDS = {"none": None, "50 %": NUMBERS // 2, "5 %": NUMBERS // 20, "0.1 %": NUMBERS // 1000}
ADDED_ROWS = 4096  # rows of one call that adds
WIDEST = 4096
TOGETHER, BATCHES = 16, 32  # queries of one batch, and batches that are timed
SECONDS = 3.0  # that single queries are timed for, at most
CHANGED, BETWEEN = 100, 10  # rows of one call that replaces, and searches between two of them
FILLED = "racer", "filled and built", "CPU", "memory grew by", "on disk"
ASKED = "racer", "filter", "asked", "recall", "one query, p50", "p99", "CPU", f"queries/s, {TOGETHER} at once"
REPLACED = "racer", "replaced a second", "CPU", "one query, p50", "p99", "CPU", "recall after", "disk after"


def run(args: argparse.Namespace) -> int:
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that are started
    tables = [[head(*columns)] for columns in (FILLED, ASKED, REPLACED)]
    with tempfile.TemporaryDirectory(prefix="multifold-race-") as folder:
        course = Path(folder) / "course.npz"
        size = write_course(args, course)
        for name in args.only:
            racer = RACERS[name]
            if importlib.util.find_spec(racer.package) is None:
                print(f"{racer.title} is left out: no module {racer.package} is installed")
                continue
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
                try:
                    lines = alone.submit(race_one, racer, course, Path(folder)).result()
                except Exception as error:  # noqa: BLE001 (whatever a library raises; a crash too)
                    print(f"{racer.title} ended: {error}")
                    continue
            for table, more in zip(tables, lines, strict=True):
                table += more
            print(f"{racer.title} is done", flush=True)
    print(f"\n{size}, the nearest {LIMIT}\n")
    for table in tables:
        print("\n".join(table), end="\n\n")
    return 0


def write_course(args: argparse.Namespace, path: Path) -> str:
    """Rows with a number each, rows that will replace a tenth of them, and queries; returns the size."""
    if args.features is None:
        vectors = SCENES[args.scene](args.rows + args.rows // 10, args.dim, args.queries)
    else:
        vectors = generated_vectors.encoded_vectors(args.features, open_encoder(args.bundle), args.queries)
    first = len(vectors.rows) * 10 // 11
    numbers = np.random.default_rng(4).integers(NUMBERS, size=first)
    np.savez(
        path,
        rows=vectors.rows[:first],
        later=vectors.rows[first:],
        numbers=numbers,
        probes=vectors.probes,
        queries=vectors.queries,
    )
    return f"{first} rows of {vectors.rows.shape[1]}"


def race_one(kind: type[Racer], course: Path, folder: Path) -> tuple[list[str], list[str], list[str]]:
    """The lines of one racer for each of the three tables."""
    with np.load(course) as arrays:  # not made here: a library would use again what that frees
        race = Race(**arrays)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        racer = kind(Path(own), race.probes)
        filled = [race.fill(racer)]
        searched = [line for recall in RECALLS for line in race.searches(racer, recall)]
        replaced = [race.changes(racer)]
        racer.close()
    return filled, searched, replaced


class AskedQueries:
    """Queries among the rows that a filter allows, and what the right answers score."""

    def __init__(self, queries: Vectors, rows: Vectors, allowed: Ids | None) -> None:
        self.queries = queries
        self._rows = rows
        self._possible = 1.0 if allowed is None else min(LIMIT, len(allowed)) / LIMIT
        self._least: Float32[np.ndarray, "q 1"] = true_thresholds(rows, queries, LIMIT, allowed)

    def recall(self, found: Places) -> float:
        """Of the answers to the first queries, as many as there are."""
        first = slice(len(found))
        return measure_recall(self._rows, self.queries[first], found, self._least[first]) / self._possible

    def batch(self, turn: int, size: int) -> Vectors:
        """Some of them, others in the next turn."""
        return self.queries[np.arange(turn * size, (turn + 1) * size) % len(self.queries)]


@dataclass(frozen=True)
class Race:
    """What a racer has to do."""

    rows: Vectors
    later: Vectors
    numbers: Ids
    probes: Vectors
    queries: Vectors

    def fill(self, racer: Racer) -> str:
        before = resident_bytes(os.getpid())
        start = time.perf_counter()
        cpu = time.process_time()
        for first in range(0, len(self.rows), ADDED_ROWS):
            ids = np.arange(first, min(first + ADDED_ROWS, len(self.rows)))
            racer.add(ids, self.rows[ids], self.numbers[ids])
        racer.build()
        took = f"{time.perf_counter() - start:.1f} s", f"{time.process_time() - cpu:.1f} s"
        racer.save()
        grown = resident_bytes(os.getpid()) - before
        return row(racer.title, *took, _megabytes(grown), _on_disk(racer))

    def searches(self, racer: Racer, recall: float) -> Iterator[str]:
        """Without a filter and with each, at this recall."""
        racer.set_recall(recall)
        for name, below in BOUNDS.items():
            allowed = None if below is None else np.flatnonzero(self.numbers < below)
            if racer.has_effort:
                set_least_effort(racer, AskedQueries(self.probes, self.rows, allowed), recall, below)
            asked = AskedQueries(self.queries, self.rows, allowed)
            found, seconds, cpu = time_searches(racer, asked.queries, below)
            share = f"{asked.recall(found):.3f}"
            times = _times(seconds, cpu)
            batches = time_calls(partial(search_batch, racer, asked, below), BATCHES)
            yield row(racer.title, name, recall, share, *times, f"{TOGETHER / np.median(batches):,.0f}")

    def changes(self, racer: Racer) -> str:
        """A tenth of the rows is replaced, some at a time, with searches between them, at the last recall."""
        if racer.has_effort:
            set_least_effort(racer, AskedQueries(self.probes, self.rows, None), RECALLS[-1], None)
        ids = np.random.default_rng(5).permutation(len(self.rows))[: len(self.later)]
        asked = AskedQueries(self.queries, self.rows, None)
        writing = writing_cpu = searching_cpu = 0.0
        seconds: list[float] = []
        for turn, first in enumerate(range(0, len(ids), CHANGED)):
            some = ids[first : first + CHANGED]
            start = time.perf_counter()
            cpu = time.process_time()
            racer.replace(some, self.later[first : first + CHANGED], self.numbers[some])
            writing += time.perf_counter() - start
            writing_cpu += time.process_time() - cpu
            _, more, cpu = time_searches(racer, asked.batch(turn, BETWEEN), None)
            seconds += more
            searching_cpu += cpu
        self.rows[ids] = self.later[: len(ids)]
        after = AskedQueries(self.queries, self.rows, None)
        share = after.recall(time_searches(racer, after.queries, None)[0])
        racer.save()
        rate = f"{len(ids) / writing:,.0f}"
        spent = f"{writing_cpu:.1f} s"
        return row(racer.title, rate, spent, *_times(seconds, searching_cpu), f"{share:.3f}", _on_disk(racer))


def set_least_effort(racer: Racer, probes: AskedQueries, recall: float, below: int | None) -> None:
    """Set the least width that reaches the recall, within an eighth."""

    def reaches(width: int) -> bool:
        racer.set_effort(width)
        return probes.recall(racer.search(probes.queries, LIMIT, below)) >= recall

    width = 1
    while width < WIDEST and not reaches(width):
        width *= 2
    too_little = width // 2
    for _ in range(3):
        middle = (too_little + width) // 2
        if reaches(middle):
            width = middle
        else:
            too_little = middle
    racer.set_effort(width)


def search_batch(racer: Racer, asked: AskedQueries, below: int | None, turn: int) -> None:
    racer.search(asked.batch(turn, TOGETHER), LIMIT, below)


def time_searches(racer: Racer, queries: Vectors, below: int | None) -> tuple[Places, list[float], float]:
    """What is found for as many of the queries as there is time for, the seconds of each, and CPU seconds."""
    racer.search(queries[-1:], LIMIT, below)
    found = list[Places]()
    seconds = list[float]()
    end = time.perf_counter() + SECONDS
    cpu = time.process_time()
    for place in range(len(queries)):
        start = time.perf_counter()
        found.append(racer.search(queries[place : place + 1], LIMIT, below))
        seconds.append(time.perf_counter() - start)
        if time.perf_counter() > end:
            break
    return np.concatenate(found), seconds, time.process_time() - cpu


def _times(seconds: list[float], cpu: float) -> list[str]:
    """The median, the 99th percentile and the CPU time of a query."""
    return [f"{1e3 * one:.2f} ms" for one in (*np.percentile(seconds, [50, 99]), cpu / len(seconds))]


def _on_disk(racer: Racer) -> str:
    return _megabytes(sum(file.stat().st_size for file in racer.folder.rglob("*") if file.is_file()))


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
