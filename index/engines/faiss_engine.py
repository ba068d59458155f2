"""An engine of FAISS types that is alive: sealed parts, a fresh exact one, merged in the background.

What is searched is a tuple of parts that never changes; a change puts another tuple in its place, so every
search sees one version and waits for nobody. New rows go to the fresh part. When looking at each of them
gets slow, they are frozen and get a first index, which is made at once; when they are many, they are sealed
together with smaller or rotten parts. Background threads do both (see segments.py, build.py).
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np

from index.base import Block, Found, Ids, Paired, Ranked
from index.engines import gpu, neighbours, scoring, segments
from index.engines.ann import Start, Stopped, check, use_threads
from index.engines.batcher import Batcher
from index.engines.build import Builder
from index.engines.exact import ExactEngine
from index.engines.parts import Part
from index.engines.report import Report
from index.engines.rowbuffer import refuse_known
from index.engines.rowview import RowView, rising
from index.engines.savedparts import Shelf
from index.plan import Plan
from multifold.machine import cores, stand_back
from multifold.types import Metric, Vector, Vectors

log = logging.getLogger(__name__)

SLOW = 1 << 20  # numbers in fresh rows that get a first index
HASTE, SEAL = "haste", "seal"
Build: TypeAlias = Callable[[RowView, Start | None, Callable[[], bool]], Part]


@dataclass(frozen=True, eq=False)
class _Job:
    """What becomes of some parts, in the background."""

    chosen: list[Part]
    future: Future[None]

    @property
    def runs(self) -> bool:
        return not self.future.done()


def no_queries(_: int) -> Vectors | None:
    """Nobody has asked anything yet."""
    return None


class FaissEngine:
    """Neighbours by index score, found by any FAISS type at the recall that the plan asks for."""

    def __init__(
        self,
        dim: int,
        metric: Metric,
        plan: Plan | None = None,
        *,
        ask: Callable[[int], Vectors | None] = no_queries,
        signs: Vector | None = None,
        home: Path | None = None,
    ) -> None:
        self._dim, self._metric, self._plan = dim, metric, plan or Plan()
        on_gpu = gpu.chosen(self._plan.device)
        check(self._plan, dim, on_gpu=on_gpu)
        self._shelf = Shelf(metric, dim, self._plan.device, home)
        self._builder = Builder(metric, self._plan, ask, signs, threads=max(1, _threads() - 1))
        self._batcher = Batcher(self._look, lanes=1 if on_gpu else _threads(), cores=_threads())
        self._workers = ThreadPoolExecutor(2, "seal", stand_back)
        self._workers.submit(scoring.compiled)  # there before somebody waits for it
        self._changing = threading.Lock()
        self._closing = threading.Event()
        self._jobs: dict[str, _Job] = {}
        self._parts: tuple[Part, ...] = ()
        self.seals = 0
        self._start_afresh()

    def add(self, ids: Paired, vectors: Vectors) -> None:
        """Add rows; an id that is already there is an error, and nothing is added."""
        with self._changing:
            refuse_known(np.sort(ids), *(part.rows for part in self._parts))
            self._fresh.add(ids, vectors)
            self._show(self._sealed)
            self._seal_if_due()

    def remove(self, ids: Ids) -> None:
        """Remove rows; ids that are not there are ignored."""
        ids = rising(ids)
        with self._changing:
            self._fresh.remove(ids)
            self._show([_without(part, ids) for part in self._sealed])
            self._seal_if_due()

    def search(
        self, queries: Vectors, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> Ranked:
        """The best rows of each query, best first, padded with -inf and NOBODY; `exact` looks at all rows."""
        if allowed is None and not exact:
            return self._batcher.search(queries, limit)
        return self._gathered(queries, limit, None if allowed is None else rising(allowed), exact=exact)

    def range(self, query: Vector, threshold: float, allowed: Ids | None = None) -> Found:
        """Every row that scores `threshold` or more, best first: each row is looked at."""
        found = [
            neighbours.within(self._metric, part.rows, query, threshold, allowed) for part in self._parts
        ]
        scores, ids = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        order = np.lexsort((ids, -scores))
        return scores[order], ids[order]

    def blocks(self, allowed: Ids | None = None) -> Iterator[Block]:
        """Every row, some at a time."""
        return chain.from_iterable(part.rows.blocks(allowed) for part in self._parts)

    def count(self) -> int:
        """How many rows there are."""
        return sum(len(part.rows) for part in self._parts)

    def sample(self, count: int) -> Vectors:
        """Up to so many of the vectors, drawn evenly."""
        largest = max(self._parts, key=lambda part: len(part.rows))
        return largest.rows.sample(count)

    def save(self, path: Path) -> None:
        """Write the rows to a file, and sealed parts that have none yet to files beside it."""
        self._shelf.save(path, self._parts)

    def load(self, path: Path) -> None:
        """Replace the rows by those of a file; a damaged or foreign one is an error and changes nothing."""
        sealed, ids, vectors = self._shelf.load(path)
        with self._changing:
            self._start_afresh()
            self._fresh.add(ids, vectors)
            self._show(sealed)
            self._seal_if_due()

    def settle(self) -> None:
        """Wait until nothing is left to seal; raises what went wrong in the background."""
        while jobs := list(self._jobs.values()):
            for job in jobs:
                job.future.result()
            with self._changing:
                if list(self._jobs.values()) == jobs:
                    return

    def reports(self) -> list[Report]:
        """What the sealed parts are, find and cost."""
        return [part.report for part in self._parts if part.report is not None]

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is searched now, the fresh part last."""
        return self._parts

    def close(self) -> None:
        """Call off what is being built, and let go of the rows."""
        self._closing.set()
        self._workers.shutdown()
        with self._changing:
            self._start_afresh()

    @property
    def _sealed(self) -> list[Part]:
        return list(self._parts[:-1])

    def _start_afresh(self) -> None:
        self._fresh = ExactEngine(self._dim, self._metric)
        self._show([])

    def _show(self, parts: list[Part]) -> None:
        self._parts = (*parts, Part(self._fresh.view))

    def _gathered(
        self, queries: Vectors, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> Ranked:
        """The best of all parts together; ties go to the smaller id."""
        queries = queries[:]  # an array of its own: what is found for it serves all parts (cells.py)
        parts = [part for part in self._parts if len(part.rows)] or self._parts[-1:]
        answers = [part.search(self._metric, queries, limit, allowed, exact=exact) for part in parts]
        if len(answers) == 1:
            return answers[0]
        scores, ids = (np.concatenate(arrays, axis=1) for arrays in zip(*answers, strict=True))
        order = np.lexsort((ids, -scores))[:, :limit]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(ids, order, 1)

    def _look(self, queries: Vectors, limit: int, threads: int) -> Ranked:
        use_threads(threads if len(queries) > 1 else 1)
        return self._gathered(queries, limit)

    def _seal_if_due(self) -> None:
        """Start what there is reason for and does not run: a first index of fresh rows, a merge."""
        if self._closing.is_set():
            return
        hastens = self._plan.seal_at * self._dim >= SLOW and self._builder.indexes(self.count())
        if hastens and self._fresh.count() * self._dim >= SLOW and not self._runs(HASTE):
            self._freeze()
            self._begin(HASTE, segments.hasty(self._free()), self._builder.hasten)
        if self._runs(SEAL):
            return
        if self._fresh.count() and segments.due([*self._free(), self._parts[-1]], self._plan.seal_at):
            self._freeze()
        if chosen := segments.due(self._free(), self._plan.seal_at):
            self._begin(SEAL, chosen, self._sealed_part)

    def _freeze(self) -> None:
        """The fresh rows become a part of their own, and a new fresh part begins."""
        frozen, self._fresh = self._parts, ExactEngine(self._dim, self._metric)
        self._show(list(frozen))

    def _free(self) -> list[Part]:
        """Frozen and sealed parts that nobody is making something of."""
        held = {id(part.rows.ids) for job in self._jobs.values() for part in job.chosen if job.runs}
        return [part for part in self._sealed if id(part.rows.ids) not in held]

    def _runs(self, name: str) -> bool:
        return name in self._jobs and self._jobs[name].runs

    def _begin(self, name: str, chosen: list[Part], build: Build) -> None:
        self._jobs[name] = _Job(chosen, self._workers.submit(self._replace, name, chosen, build))

    def _replace(self, name: str, chosen: list[Part], build: Build) -> None:
        """Runs in the background; what it replaces is searched until it is done."""
        try:
            rows = segments.merged(chosen)
            start = segments.start(self._sealed, chosen, rows)
            new = build(rows, start, self._closing.is_set) if len(rows) else Part(rows)
        except Stopped:
            return
        except BaseException:
            log.exception("rows could not be sealed; they stay exact, and the next change tries again")
            raise
        with self._changing:
            self._show(segments.replaced(self._sealed, chosen, new))
            self.seals += name == SEAL
            del self._jobs[name]
            self._seal_if_due()
        self._shelf.forget(chosen)

    def _sealed_part(self, rows: RowView, start: Start | None, stopped: Callable[[], bool]) -> Part:
        return self._shelf.keep(self._builder.build(rows, start, stopped))


def _threads() -> int:
    """How many threads may search at once: no more than OpenMP, which FAISS counts by, may use."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores(), int(wanted)) if wanted.isdigit() and int(wanted) else cores()


def _without(part: Part, ids: Ids) -> Part:
    rows: RowView = part.rows.without(ids)
    return part if rows is part.rows else Part(rows, part.ann, part.report)
