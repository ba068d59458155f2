"""Race Multifold against embedded libraries: time, memory and disk at equal recall, filters, changing rows.

    multifold bench race --rows 20000 --dim 128

Each library has a process of its own. Those that are not installed are named and left out; Multifold does not
need them. Rows lie in clusters, and queries apart from them, as those of another side do. The width of a
search is the least that reaches the recall on queries that are not reported, anew for each filter. A filter
is a number below a bound; each row has one of 0 to 999. Times are wall time of one query after the other;
"CPU" is what all threads of the process took, which other work on the machine changes less.
"""

import argparse
import importlib.util
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from benches.index.changes import true_thresholds
from benches.index.generated_vectors import VectorSet, sphere_vectors
from benches.race.libraries import LIBRARIES, EmbeddedLibrary, Places, folder_bytes
from benches.race.ours import OurCollection, OurIndex
from benches.reporting import head, row
from benches.service.running_service import resident_bytes
from index.contracts import Ids
from multifold.types import Vectors

RACERS: dict[str, type[EmbeddedLibrary]] = {"index": OurIndex, "collection": OurCollection, **LIBRARIES}
LIMIT = 10
RECALLS = (0.95, 0.99)
NUMBERS = 1000
BOUNDS = {"none": None, "50 %": NUMBERS // 2, "5 %": NUMBERS // 20, "0.1 %": NUMBERS // 1000}
PIECE = 4096  # rows of one call that adds
WIDEST = 4096
SECONDS = 3.0  # that one line is timed for, at most
CHANGED, BETWEEN = 100, 10  # rows of one call that replaces, and searches between two of them
MB = 1e6
FILLED = "library", "filled and built", "CPU", "memory grew by", "on disk"
ASKED = "library", "filter", "asked", "recall", "one query, p50", "p99", "CPU"
REPLACED = "library", "replaced a second", "CPU", "one query, p50", "p99", "CPU", "recall after", "disk after"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--queries", type=int, default=256)
    parser.add_argument("--only", nargs="+", choices=list(RACERS), default=list(RACERS))


def run(args: argparse.Namespace) -> int:
    tables: list[list[str]] = [[head(*columns)] for columns in (FILLED, ASKED, REPLACED)]
    with tempfile.TemporaryDirectory(prefix="multifold-race-") as folder:
        raced = Path(folder) / "raced.npz"
        vectors = sphere_vectors(args.rows, args.dim, args.queries)
        numbers = np.random.default_rng(4).integers(NUMBERS, size=args.rows)
        np.savez(raced, *(vectors.rows, vectors.probes, vectors.queries, numbers))
        for name in args.only:
            kind = RACERS[name]
            if importlib.util.find_spec(kind.package) is None:
                print(f"{kind.title} is left out: no module {kind.package} is installed")
                continue
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
                try:
                    lines = alone.submit(race_one, name, raced, Path(folder)).result()
                except Exception as error:  # noqa: BLE001 (whatever a library raises; a crash too)
                    print(f"{kind.title} ended: {error}")
                    continue
            for table, more in zip(tables, lines, strict=True):
                table += more
            print(f"{kind.title} is done", flush=True)
    print(f"\n{args.rows} rows of {args.dim}, the nearest {LIMIT}\n")
    for table in tables:
        print("\n".join(table), end="\n\n")
    return 0


def race_one(name: str, raced: Path, folder: Path) -> tuple[list[str], list[str], list[str]]:
    """The lines of one library for each of the three tables."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with np.load(raced) as arrays:  # not made here: a library would use again what that frees
        rows, probes, queries, numbers = arrays.values()
    world = GeneratedRace(VectorSet(rows, probes, queries), numbers)
    if name == "index":
        OurIndex.probes = probes
    with tempfile.TemporaryDirectory(dir=folder) as own:
        library = RACERS[name](Path(own), rows.shape[1])
        filled = [world.fill(library)]
        asked = [line for recall in RECALLS for line in world.searches(library, recall)]
        replaced = [world.changes(library)]
        library.close()
    return filled, asked, replaced


@dataclass
class GeneratedRace:
    """What is raced with: rows with a number each, and queries."""

    vectors: VectorSet
    numbers: Ids

    def fill(self, library: EmbeddedLibrary) -> str:
        rows, before = self.vectors.rows, resident_bytes(os.getpid())
        start, cpu = time.perf_counter(), time.process_time()
        for first in range(0, len(rows), PIECE):
            ids = np.arange(first, min(first + PIECE, len(rows)))
            library.add(ids, rows[ids], self.numbers[ids])
        library.build()
        took = f"{time.perf_counter() - start:.1f} s", f"{time.process_time() - cpu:.1f} s"
        library.save()
        grown = resident_bytes(os.getpid()) - before
        return row(library.title, *took, _megabytes(grown), _megabytes(folder_bytes(library.folder)))

    def searches(self, library: EmbeddedLibrary, recall: float) -> Iterator[str]:
        """Without a filter and with each, at this recall."""
        library.aim(recall)
        for name, below in BOUNDS.items():
            if below is not None and not library.filters:
                yield row(library.title, name, recall, "cannot filter", "", "", "")
                continue
            if library.effort:
                self._tune(library, recall, below)
            found, seconds, cpu = timed_searches(library, self.vectors.queries, below)
            middle, late = np.percentile(seconds, [50, 99]) * 1e3
            share = self._recall(found, self.vectors.queries[: len(found)], below)
            times = f"{middle:.2f} ms", f"{late:.2f} ms", f"{1e3 * cpu / len(found):.2f} ms"
            yield row(library.title, name, recall, f"{share:.3f}", *times)

    def changes(self, library: EmbeddedLibrary) -> str:
        """A tenth of the rows is replaced, some at a time, with searches between them, at the last width."""
        rng, rows = np.random.default_rng(5), self.vectors.rows
        if library.effort:
            self._tune(library, RECALLS[-1], None)
        ids = rng.permutation(len(rows))[: len(rows) // 10]
        new = sphere_vectors(len(ids), rows.shape[1], 1).rows
        writing, cpu, searching, seconds = 0.0, 0.0, 0.0, list[float]()
        for first in range(0, len(ids), CHANGED):
            some, start, before = ids[first : first + CHANGED], time.perf_counter(), time.process_time()
            library.replace(some, new[first : first + CHANGED], self.numbers[some])
            writing += time.perf_counter() - start
            cpu += time.process_time() - before
            place = first // CHANGED * BETWEEN % (len(self.vectors.queries) - BETWEEN)
            _, more, spent = timed_searches(library, self.vectors.queries[place : place + BETWEEN], None)
            seconds += more
            searching += spent
        rows = rows.copy()
        rows[ids] = new
        self.vectors = replace(self.vectors, rows=rows)
        found = timed_searches(library, self.vectors.queries, None)[0]
        share = self._recall(found, self.vectors.queries[: len(found)], None)
        library.save()
        middle, late = np.percentile(seconds, [50, 99])
        times = (f"{one * 1e3:.2f} ms" for one in (middle, late, searching / len(seconds)))
        size = _megabytes(folder_bytes(library.folder))
        return row(library.title, f"{len(ids) / writing:,.0f}", f"{cpu:.1f} s", *times, f"{share:.3f}", size)

    def _tune(self, library: EmbeddedLibrary, recall: float, below: int | None) -> None:
        """Set the least width that reaches the recall on the probes."""
        probes, width = self.vectors.probes, LIMIT
        while True:
            library.set_effort(width)
            if self._recall(library.search(probes, LIMIT, below), probes, below) >= recall or width >= WIDEST:
                return
            width = min(WIDEST, int(width * 1.5))

    def _recall(self, found: Places, queries: Vectors, below: int | None) -> float:
        """The share of what was found that scores as much as the true last row."""
        allowed = None if below is None else np.flatnonzero(self.numbers < below)
        least = true_thresholds(VectorSet(self.vectors.rows, queries, queries), LIMIT, allowed=allowed)
        scores: Float32[np.ndarray, "q k"] = np.einsum("qkd,qd->qk", self.vectors.rows[found], queries)
        wanted = LIMIT if allowed is None else min(LIMIT, len(allowed))
        return float(np.sum((scores >= least - 1e-5) & (found >= 0)) / (wanted * len(queries)))


def timed_searches(
    library: EmbeddedLibrary, queries: Vectors, below: int | None
) -> tuple[Places, list[float], float]:
    """What is found for as many of the queries as there is time for, the seconds of each, and CPU seconds."""
    library.search(queries[-1:], LIMIT, below)
    found, seconds = list[Places](), list[float]()
    end, cpu = time.perf_counter() + SECONDS, time.process_time()
    for place in range(len(queries)):
        start = time.perf_counter()
        found.append(library.search(queries[place : place + 1], LIMIT, below))
        seconds.append(time.perf_counter() - start)
        if time.perf_counter() > end:
            break
    return np.concatenate(found), seconds, time.process_time() - cpu


def _megabytes(count: int) -> str:
    return f"{count / MB:,.0f} MB"
