"""An engine of FAISS types that is alive: sealed parts, a fresh exact one, merged in the background.

What is searched is a tuple of parts that never changes; a change puts another tuple in its place, so every
search sees one version and never waits. New rows go to the fresh part. When scoring each of them gets
slow, they are frozen and get a first index, which is made quickly; when they are many, they are sealed
together with smaller or rotten parts. Background threads do both (see segments.py, builder.py).
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np

from index.contracts import Ids, IndexPlan, PairedIds, RowBlock, RowRanking, RowRankings
from index.engines import exact_engine, faiss_library, segments
from index.engines.builder import SegmentBuilder
from index.engines.exact_engine import ExactEngine, RowView, refuse_known, sort_unique
from index.engines.faiss_index import BuildStopped, IndexStart, check_types
from index.engines.faiss_library import faiss
from index.engines.saved_engines import SegmentFiles
from index.engines.segments import Segment, SegmentReport
from multifold.machine import cores, lower_thread_priority
from multifold.types import Metric, Vector, Vectors

log = logging.getLogger(__name__)

SLOW_NUMBERS = 1 << 20  # numbers in fresh rows that get a first index
FIRST_INDEX, SEAL = "haste", "seal"
Build: TypeAlias = Callable[[RowView, IndexStart | None, Callable[[], bool]], Segment]


@dataclass(frozen=True, eq=False)
class _Job:
    """What becomes of some parts, in the background."""

    chosen: list[Segment]
    future: Future[None]

    @property
    def runs(self) -> bool:
        return not self.future.done()


BATCH = 256  # queries at most


class _Call:
    """One caller's queries, and later their answer."""

    def __init__(self, queries: Vectors, limit: int) -> None:
        self.queries = queries
        self.limit = limit
        self.leads = False
        self.woken: threading.Event | None = None  # made by those who have to wait
        self.answer: RowRankings | None = None
        self.error: BaseException | None = None


class SearchBatcher:
    """Runs searches on `lanes` threads at most, which are those of the callers."""

    def __init__(self, run: Callable[[Vectors, int, int], RowRankings], lanes: int, cores: int) -> None:
        self._run = run  # queries, limit, threads
        self._lanes = lanes
        self._cores = cores
        self._lock = threading.Lock()
        self._busy = 0
        self._waiting: list[_Call] = []

    def search(self, queries: Vectors, limit: int) -> RowRankings:
        """The answer to these queries, perhaps found together with others'."""
        if len(queries) <= BATCH:
            return self._joined(_Call(queries, limit))
        pieces = [queries[start : start + BATCH] for start in range(0, len(queries), BATCH)]
        answers = [self._joined(_Call(piece, limit)) for piece in pieces]
        scores, ids = zip(*answers, strict=True)
        return np.concatenate(scores), np.concatenate(ids)

    def _joined(self, call: _Call) -> RowRankings:
        with self._lock:
            call.leads = self._busy < self._lanes
            self._busy += call.leads
            if not call.leads:
                call.woken = threading.Event()
                self._waiting.append(call)
        if call.woken is not None:
            call.woken.wait()
        if call.leads:
            self._lead(call)
        if call.error is not None:
            raise call.error
        assert call.answer is not None
        return call.answer

    def _lead(self, call: _Call) -> None:
        """Answer this call and those that wait for the same, then hand the lane on."""
        with self._lock:
            batch, threads = self._batch(call), max(1, self._cores // self._busy)
        try:
            queries = call.queries if len(batch) == 1 else np.concatenate([one.queries for one in batch])
            scores, ids = self._run(queries, call.limit, threads)
            start = 0
            for one in batch:
                end = start + len(one.queries)
                one.answer, start = (scores[start:end], ids[start:end]), end
        except BaseException as error:  # noqa: BLE001 (each caller raises it)
            for one in batch:
                one.error = error
        finally:
            self._hand_on(batch[1:])

    def _batch(self, call: _Call) -> list[_Call]:
        batch, size = [call], len(call.queries)
        for one in self._waiting:
            if one.limit == call.limit and size + len(one.queries) <= BATCH:
                batch.append(one)
                size += len(one.queries)
        self._waiting = [one for one in self._waiting if one not in batch]
        return batch

    def _hand_on(self, answered: list[_Call]) -> None:
        with self._lock:
            if self._waiting:
                heir = self._waiting.pop(0)
                heir.leads = True
                answered = [*answered, heir]
            else:
                self._busy -= 1
        for one in answered:
            assert one.woken is not None
            one.woken.set()


TIER = 4  # a sealed part joins a merge that has a quarter of its rows
DEAD_SHARE = 4  # and so does one of whose rows a quarter is dead


def segments_to_merge(parts: Sequence[Segment], seal_at: int) -> list[Segment]:
    """The parts to merge now: loose rows if they are enough, and beside them small or rotten sealed parts."""
    loose = [part for part in parts if part.report is None]
    size = sum(len(part.rows) for part in loose)
    rotten = [part for part in parts if part.report and part.rows.dead * DEAD_SHARE > len(part.rows.ids)]
    enough = size >= seal_at or rotten
    return segments.with_similar(loose + rotten, parts, TIER) if enough else []


class FaissEngine:
    """Neighbours by index score, found by any FAISS type at the recall that the plan asks for."""

    def __init__(
        self,
        dim: int,
        metric: Metric,
        plan: IndexPlan | None = None,
        *,
        ask: Callable[[int], Vectors | None] = lambda _: None,
        signs: Vector | None = None,
        home: Path | None = None,
    ) -> None:
        self._dim, self._metric, self._plan = dim, metric, plan or IndexPlan()
        on_gpu = faiss_library.uses_gpu(self._plan.device)
        check_types(self._plan, dim, on_gpu=on_gpu)
        self._files = SegmentFiles(metric, dim, self._plan.device, home)
        self._builder = SegmentBuilder(metric, self._plan, ask, signs, threads=max(1, _threads() - 1))
        self._batcher = SearchBatcher(self._search_lane, lanes=1 if on_gpu else _threads(), cores=_threads())
        self._workers = ThreadPoolExecutor(2, "seal", lower_thread_priority)
        self._workers.submit(exact_engine.load_compiled)  # loaded before the first search needs it
        self._changing = threading.Lock()
        self._closing = threading.Event()
        self._jobs: dict[str, _Job] = {}
        self._parts: tuple[Segment, ...] = ()
        self.seals = 0
        self._start_afresh()

    def add(self, ids: PairedIds, vectors: Vectors) -> None:
        """Add rows; an id that is already there is an error, and nothing is added."""
        with self._changing:
            refuse_known(np.sort(ids), *(part.rows for part in self._parts))
            self._fresh.add(ids, vectors)
            self._show(self._sealed)
            self._seal_if_due()

    def remove(self, ids: Ids) -> None:
        """Remove rows; ids that are not there are ignored."""
        ids = sort_unique(ids)
        with self._changing:
            self._fresh.remove(ids)
            left = [(part, part.rows.without(ids)) for part in self._sealed]
            self._show([part if rows is part.rows else replace(part, rows=rows) for part, rows in left])
            self._seal_if_due()

    def search(
        self, queries: Vectors, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> RowRankings:
        """The best rows of each query, best first, padded with -inf and NO_ROW; `exact` scores all rows."""
        if allowed is None and not exact:
            return self._batcher.search(queries, limit)
        return self._search_parts(
            queries, limit, None if allowed is None else sort_unique(allowed), exact=exact
        )

    def range(self, query: Vector, threshold: float, allowed: Ids | None = None) -> RowRanking:
        """Every row that scores `threshold` or more, best first: each row is scored."""
        near = [
            exact_engine.rows_within(self._metric, part.rows, query, threshold, allowed)
            for part in self._parts
        ]
        scores, ids = (np.concatenate(arrays) for arrays in zip(*near, strict=True))
        order = np.lexsort((ids, -scores))
        return scores[order], ids[order]

    def blocks(self, allowed: Ids | None = None) -> Iterator[RowBlock]:
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
        self._files.save(path, self._parts)

    def load(self, path: Path) -> None:
        """Replace the rows by those of a file; a damaged or foreign one is an error and changes nothing."""
        sealed, ids, vectors = self._files.load(path)
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

    def reports(self) -> list[SegmentReport]:
        """What the sealed parts are, find and cost."""
        return [part.report for part in self._parts if part.report is not None]

    @property
    def parts(self) -> tuple[Segment, ...]:
        """What is searched now, the fresh part last."""
        return self._parts

    def close(self) -> None:
        """Stop what is being built, and release the rows."""
        self._closing.set()
        self._workers.shutdown()
        with self._changing:
            self._start_afresh()

    @property
    def _sealed(self) -> list[Segment]:
        return list(self._parts[:-1])

    def _start_afresh(self) -> None:
        self._fresh = ExactEngine(self._dim, self._metric)
        self._show([])

    def _show(self, parts: list[Segment]) -> None:
        self._parts = (*parts, Segment(self._fresh.view))

    def _search_parts(
        self, queries: Vectors, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> RowRankings:
        """The best of all parts together; ties go to the smaller id."""
        queries = queries[:]  # an array of its own: what is found for it serves all parts (cells.py)
        parts = [part for part in self._parts if len(part.rows)] or self._parts[-1:]
        answers = [
            exact_engine.nearest_rows(self._metric, part.rows, queries, limit, allowed)
            if part.ann is None or exact
            else part.search(self._metric, queries, limit, allowed)
            for part in parts
        ]
        if len(answers) == 1:
            return answers[0]
        scores, ids = (np.concatenate(arrays, axis=1) for arrays in zip(*answers, strict=True))
        order = np.lexsort((ids, -scores))[:, :limit]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(ids, order, 1)

    def _search_lane(self, queries: Vectors, limit: int, threads: int) -> RowRankings:
        faiss.omp_set_num_threads(threads if len(queries) > 1 else 1)
        return self._search_parts(queries, limit)

    def _seal_if_due(self) -> None:
        """Start what there is reason for and does not run: a first index of fresh rows, a merge."""
        if self._closing.is_set():
            return
        hastens = self._plan.seal_at * self._dim >= SLOW_NUMBERS and self._builder.indexes(self.count())
        if hastens and self._fresh.count() * self._dim >= SLOW_NUMBERS and not self._runs(FIRST_INDEX):
            self._freeze()
            self._begin(FIRST_INDEX, segments.segments_to_hasten(self._free()), self._builder.hasten)
        if self._runs(SEAL):
            return
        if self._fresh.count() and segments_to_merge([*self._free(), self._parts[-1]], self._plan.seal_at):
            self._freeze()
        if chosen := segments_to_merge(self._free(), self._plan.seal_at):
            self._begin(SEAL, chosen, self._sealed_part)

    def _freeze(self) -> None:
        """The fresh rows become a part of their own, and a new fresh part begins."""
        frozen, self._fresh = self._parts, ExactEngine(self._dim, self._metric)
        self._show(list(frozen))

    def _free(self) -> list[Segment]:
        """Frozen and sealed parts that no job works on."""
        held = {id(part.rows.ids) for job in self._jobs.values() for part in job.chosen if job.runs}
        return [part for part in self._sealed if id(part.rows.ids) not in held]

    def _runs(self, name: str) -> bool:
        return name in self._jobs and self._jobs[name].runs

    def _begin(self, name: str, chosen: list[Segment], build: Build) -> None:
        self._jobs[name] = _Job(chosen, self._workers.submit(self._replace, name, chosen, build))

    def _replace(self, name: str, chosen: list[Segment], build: Build) -> None:
        """Runs in the background; what it replaces is searched until it is done."""
        try:
            rows = segments.merge_rows(chosen)
            start = segments.index_start(self._sealed, chosen, rows)
            new = build(rows, start, self._closing.is_set) if len(rows) else Segment(rows)
        except BuildStopped:
            return
        except BaseException:
            log.exception("rows could not be sealed; they stay exact, and the next change tries again")
            raise
        with self._changing:
            self._show(segments.replace_segments(self._sealed, chosen, new))
            self.seals += name == SEAL
            del self._jobs[name]
            self._seal_if_due()
        self._files.forget(chosen)

    def _sealed_part(self, rows: RowView, start: IndexStart | None, stopped: Callable[[], bool]) -> Segment:
        return self._files.keep(self._builder.build(rows, start, stopped))


def _threads() -> int:
    """How many threads may search at once: no more than OpenMP may use."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores(), int(wanted)) if wanted.isdigit() and int(wanted) else cores()
