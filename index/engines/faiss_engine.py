"""An engine of FAISS types that is alive: sealed parts, a fresh exact one, merged in the background.

What is searched is a tuple of parts that never changes; a change puts another tuple in its place, so every
search sees one version and never waits. New rows go to the fresh part. When scoring each of them gets
slow, they are frozen and get a first index, which is made quickly; when they are many, they are sealed
together with smaller or rotten parts. Background threads do both (see segments.py, builder.py).
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TypeAlias, cast

import numpy as np

from index.contracts import (
    CODES,
    FLAT,
    NOBODY,
    Ids,
    IndexPlan,
    PairedIds,
    RowBlock,
    RowRankings,
    RowScores,
    RowsLostError,
    RowsOwner,
)
from index.engines import exact_engine, faiss_library, file_search, merging
from index.engines.builder import MOST_PROBES, SegmentBuilder
from index.engines.exact_engine import ExactEngine, RowView, join_rows, refuse_known, sort_unique
from index.engines.faiss_index import BuildStopped, IndexStart, check_types
from index.engines.faiss_library import faiss
from index.engines.merging import segments_to_merge
from index.engines.row_file import ReadCount
from index.engines.saved_engines import SegmentFiles, SpooledRows
from index.engines.segment_search import search_segment
from index.engines.segments import Segment, SegmentReport, StepTimes
from index.engines.served_queries import Scores, ServedQueries
from multifold.machine import (
    LOW_PRIORITY,
    lower_thread_priority,
    openmp_threads,
    release_memory,
    set_thread_priority,
)
from multifold.types import Metric, Vector, Vectors

log = logging.getLogger(__name__)

SLOW_NUMBERS = 1 << 20  # numbers in fresh rows that get a first index
COLD = 60.0  # seconds in which files that were opened are not read as a whole, to check an answer
FIRST_INDEX, SEAL, RETUNE = "haste", "seal", "retune"
Make: TypeAlias = Callable[[RowView, IndexStart | None, StepTimes], Segment]
Join: TypeAlias = Callable[[Sequence[RowView]], RowView]
UNCHANGED = 10.0  # seconds without a change, after which a search starts to seal the rest
QUIET = 1.0  # seconds without a search, after which work beside them takes its share of the time
UNASKED = 60.0  # and after which new rows need no first index
QUERIES_AT_ONCE = 256  # queries that are searched at once


class SharedCores:
    """The cores of a process, which searches that run beside each other share."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._lock = threading.Lock()
        self._busy = 0
        self._searched = -np.inf

    def let_searches_go_first(self) -> None:
        """For work beside them: its thread yields while queries come, else it takes its share of the time."""
        set_thread_priority(0 if self.quiet(QUIET) else LOW_PRIORITY)

    def quiet(self, seconds: float) -> bool:
        """Whether there was no search for so long."""
        return not self._busy and time.monotonic() - self._searched > seconds

    @contextmanager
    def searching(self) -> Iterator[int]:
        """The block searches; on so many threads, with what runs beside it."""
        with self._lock:
            self._busy += 1
            threads = max(1, self._cores // self._busy)
        try:
            yield threads
        finally:
            with self._lock:
                self._busy -= 1
                self._searched = time.monotonic()


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
        owner: RowsOwner = NOBODY,
        home: Path | None = None,
        apart: Callable[[], bool] | None = None,
    ) -> None:
        self._dim, self._metric, self._plan = dim, metric, plan or IndexPlan()
        self._on_gpu = on_gpu = faiss_library.uses_gpu(self._plan.device)
        check_types(self._plan, dim, on_gpu=on_gpu)
        self._apart = apart or (lambda: self._plan.memory == CODES)  # whether vectors are kept in files now
        self._files = SegmentFiles(owner, metric, dim, self._plan.device, home)
        self._closing = threading.Event()
        cores = openmp_threads()
        self._cores = SharedCores(cores)
        self._ask = ask
        self._builder = SegmentBuilder(
            metric, self._plan, self._probes, signs, max(1, cores - 1), self._called_off
        )
        self._unhurried = ThreadPoolExecutor(1, "check", lower_thread_priority)
        self._changing = threading.Lock()
        self._jobs: dict[str, tuple[list[Segment], Future[None]]] = {}  # and the parts that each works on
        self.parts: tuple[Segment, ...] = ()  # what is searched now, the fresh part last
        self.seals = 0
        self._changed = time.monotonic()
        self._lost: RowsLostError | None = None  # what was found when rows were read for a merge
        self._filling, self._spool = False, cast(SpooledRows | None, None)
        self._start_fresh([])

    def add(self, ids: PairedIds, vectors: Vectors) -> None:
        """Add rows; an id that is already there is an error, and nothing is added."""
        with self._changing:
            refuse_known(np.sort(ids), *(part.rows for part in self.parts))
            if self._spool or (self._filling and self._goes_to_file(self.count())):
                self._spool = self._spool or self._files.spool()
                self._spool.add(ids, vectors)
                return
            self._changed = time.monotonic()
            self._fresh.add(ids, vectors)
            self._show(self._sealed)
            self._seal_if_due()

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Rows that are added in the block rise, and are searched after it; vectors go straight to files."""
        self._filling = True
        yield
        with self._changing:
            self._filling, spool, self._spool = False, self._spool, None
            if spool is not None:
                self._show([*self._sealed, self._files.keep(self._builder.wait(spool.finish()))])
                self._seal_if_due()

    def remove(self, ids: Ids) -> None:
        """Remove rows; ids that are not there are ignored."""
        ids = sort_unique(ids)
        with self._changing:
            self._changed = time.monotonic()
            self._fresh.remove(ids)
            left = [(part, part.rows.without(ids)) for part in self._sealed]
            self._show([part if rows is part.rows else replace(part, rows=rows) for part, rows in left])
            self._seal_if_due()

    def search(
        self, queries: Vectors, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> RowRankings:
        """The best rows of each query, best first, padded with -inf and NO_ROW; `exact` scores all rows."""
        if self._lost is not None:
            raise self._lost
        if allowed is None and not exact:
            parts, answer = self.parts, self._search_approximately(queries, limit)
            if self._fresh_is_slow and self._changing.acquire(blocking=False):
                try:
                    self._seal_if_due()
                finally:
                    self._changing.release()
            if any(part.ann is not None for part in parts) and self.served.due():
                with suppress(RuntimeError):  # closed meanwhile
                    self._unhurried.submit(self._check, parts, queries[:1].copy(), answer[0][:1])
            return answer
        rising = None if allowed is None else sort_unique(allowed)
        return self._search_parts(queries, limit, rising, exact=exact)

    def score(self, query: Vector, ids: Ids) -> RowScores:
        """The score of each of these ids, which rise; NaN where there is no such row."""
        scores = np.full(len(ids), np.nan, np.float32)
        for part in self.parts:
            if len(part.rows):  # the fresh one often has none
                exact_engine.write_scores(self._metric, part.rows, query, ids, scores)
        return scores

    def blocks(self, allowed: Ids | None = None) -> Iterator[RowBlock]:
        return chain.from_iterable(part.rows.blocks(allowed) for part in self.parts)

    def count(self) -> int:
        return sum(len(part.rows) for part in self.parts)

    def sample(self, count: int) -> Vectors:
        """Up to so many of the vectors, drawn evenly."""
        return max((part.rows for part in self.parts), key=len).sample(count)

    def save(self, path: Path) -> None:
        """Write the rows to a file, and sealed parts that have none yet to files beside it."""
        self._files.save(path, self.parts)

    def load(self, path: Path) -> None:
        """Replace the rows by those of a file; a damaged or foreign one is an error and changes nothing."""
        sealed, ids, vectors = self._files.load(path)
        if any(part.rows.file is not None for part in sealed):
            self.served.wait(COLD)
        with self._changing:
            self._start_fresh([])
            self._fresh.add(ids, vectors)
            self._show(sealed)
            older = [part for part in sealed if part.ann and part.ann.settings[0].far is None]
            self._retune(older, None)  # sealed by an earlier version
            self._seal_if_due()

    def settle(self) -> None:
        """Seal what is left, as no more rows come, and wait for it; raises what went wrong meanwhile."""
        while True:
            with self._changing:
                self._seal_if_due(quiet=True)
                jobs = list(self._jobs.values())
            for _, future in jobs:
                future.result()
            if list(self._jobs.values()) == jobs:
                return

    def reports(self) -> list[SegmentReport]:
        """What the sealed parts are, find and cost."""
        return [part.report for part in self.parts if part.report is not None]

    @property
    def read_count(self) -> ReadCount:
        return self._files.count

    def close(self) -> None:
        """Stop what is being built, and release the rows."""
        self._closing.set()
        self._unhurried.shutdown()
        wait(future for _, future in [*self._jobs.values()])
        with self._changing:
            self._start_fresh([])

    @cached_property
    def served(self) -> ServedQueries:
        """Queries that came, from the first one on that is answered by an index."""
        return ServedQueries()

    def _probes(self, count: int) -> Vectors | None:
        """Real queries, or else those that came."""
        queries = self._ask(count)
        return self.served.probes(count) if queries is None else queries

    @property
    def _fresh_is_slow(self) -> bool:
        """Whether scoring each fresh row takes so long that they are to have a first index."""
        return min(self._plan.seal_at, self._fresh.count()) * self._dim >= SLOW_NUMBERS

    @property
    def _sealed(self) -> list[Segment]:
        return list(self.parts[:-1])

    def _start_fresh(self, others: list[Segment]) -> None:
        self._fresh = ExactEngine(self._dim, self._metric)
        self._show(others)

    def _show(self, parts: list[Segment]) -> None:
        self.parts = (*parts, Segment(self._fresh.view))

    def _check(self, parts: tuple[Segment, ...], query: Vectors, found: Scores) -> None:
        """Runs in the background: was an answer as good as asked for? Otherwise parts look further."""
        try:
            if time.monotonic() - self._changed > UNCHANGED:
                with self._changing:
                    self._seal_if_due(quiet=True)
            exact = self._search_parts(query, found.shape[1], exact=True)[0]
            if parts is self.parts:
                self.served.keep(query)
                self.served.compare(found, exact)
        finally:
            self.served.rest()
        recall, probes = self.served.recall(), self.served.probes(MOST_PROBES)
        busy = any(name.startswith(RETUNE) for name in [*self._jobs])
        if busy or recall is None or probes is None or recall.mean + recall.error >= self._plan.recall:
            return
        log.warning("queries that came had a recall of %.3f: more is done for such", recall.mean)
        self.served.forget_answers()
        with self._changing:
            self._retune(self._free(), probes)

    def _retune(self, parts: Sequence[Segment], probes: Vectors | None) -> None:
        """Let sealed parts look further, for these queries too."""
        for part in parts:
            if part.report is not None and part.ann is not None and not self._closing.is_set():
                self._begin(f"{RETUNE} {id(part)}", [part], partial(self._retuned, probes=probes))

    def _retuned(self, chosen: list[Segment], probes: Vectors | None) -> Segment:
        return self._files.keep(self._builder.retune(chosen[0], probes))

    def _search_parts(
        self, queries: Vectors, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> RowRankings:
        """The best of all parts together; ties go to the smaller id."""
        queries = queries[:]  # an array of its own: the cells that are found for it serve all parts
        parts = [part for part in self.parts if len(part.rows)] or self.parts[-1:]
        answers = [
            _exact(part.rows).nearest_rows(self._metric, part.rows, queries, limit, allowed)
            if part.ann is None or exact
            else search_segment(part, self._metric, queries, limit, allowed, None, self.served.count_unlike)
            for part in parts
        ]
        if len(answers) == 1:
            return answers[0]
        scores, ids = (np.concatenate(arrays, axis=1) for arrays in zip(*answers, strict=True))
        best = np.arange(len(scores))[:, None], np.lexsort((ids, -scores))[:, :limit]
        return scores[best], ids[best]

    def _search_approximately(self, queries: Vectors, limit: int) -> RowRankings:
        heavy = any(part.ann is not None and part.ann.heavy for part in self.parts)
        pieces = [
            queries[start : start + QUERIES_AT_ONCE]
            for start in range(0, max(1, len(queries)), QUERIES_AT_ONCE)
        ]
        with self._cores.searching() as threads:
            faiss.omp_set_num_threads(threads if heavy or len(queries) > 1 else 1)
            answers = [self._search_parts(piece, limit) for piece in pieces]
        if len(answers) == 1:
            return answers[0]
        scores, ids = zip(*answers, strict=True)
        return np.concatenate(scores), np.concatenate(ids)

    def _seal_if_due(self, *, quiet: bool = False) -> None:
        """Start what there is reason for and does not run: a first index of fresh rows, a merge."""
        if self._closing.is_set():
            return
        due = self._fresh_is_slow and not self._cores.quiet(UNASKED) and not self._runs(FIRST_INDEX)
        if due and self._plan.ladder(self.count(), gpu=self._on_gpu)[0] != FLAT:
            self._start_fresh(list(self.parts))
            chosen = merging.segments_to_hasten(self._free())
            lent = partial(join_rows, copy=False)
            self._begin(FIRST_INDEX, chosen, partial(self._merged, make=self._builder.hasten, join=lent))
        few = not self._sealed and self._fresh.count() < self._plan.seal_at
        if few or self._runs(SEAL):
            return
        mergers = partial(segments_to_merge, seal_at=self._plan.seal_at, types=self._types, quiet=quiet)
        if self._fresh.count() and mergers([*self._free(), self.parts[-1]]):
            self._start_fresh(list(self.parts))
        if chosen := mergers(self._free()):
            rows = sum(len(part.rows) for part in chosen)
            join = self._files.joined if self._goes_to_file(rows) else join_rows
            self._begin(SEAL, chosen, partial(self._merged, make=self._sealed_part, join=join))

    def _types(self, rows: int) -> tuple[str, ...]:
        """Types to try for so many rows."""
        return self._plan.ladder(rows, gpu=self._on_gpu, codes=self._goes_to_file(rows))

    def _goes_to_file(self, rows: int) -> bool:
        """Whether vectors of so many rows go to a file: not if they are so few that each search reads all."""
        types = self._plan.ladder(rows, gpu=self._on_gpu)
        return self._apart() and (types[0] != FLAT or self._plan.type == FLAT)

    def _free(self) -> list[Segment]:
        """Frozen and sealed parts that no job works on."""
        held = {id(part.rows.ids) for chosen, job in self._jobs.values() if not job.done() for part in chosen}
        return [part for part in self._sealed if id(part.rows.ids) not in held]

    def _runs(self, name: str) -> bool:
        return name in self._jobs and not self._jobs[name][1].done()

    def _begin(self, name: str, chosen: list[Segment], build: Callable[[list[Segment]], Segment]) -> None:
        """In a thread of its own: one whose priority has fallen may not be allowed to raise it again."""
        own = None if name.startswith(RETUNE) else ThreadPoolExecutor(1, name)
        self._jobs[name] = chosen, (own or self._unhurried).submit(self._replace, name, chosen, build)
        if own is not None:
            own.shutdown(wait=False)

    def _called_off(self) -> bool:
        """Whether a job is to end; it is asked for between its steps."""
        self._cores.let_searches_go_first()
        return self._closing.is_set()

    def _replace(self, name: str, chosen: list[Segment], build: Callable[[list[Segment]], Segment]) -> None:
        """Runs in the background; what it replaces is searched until it is done."""
        try:
            new = build(chosen)
        except BuildStopped:
            return
        except RowsLostError as error:
            self._lost = error
            raise
        except BaseException:
            log.exception("rows could not be sealed; they stay exact, and the next change tries again")
            raise
        with self._changing:
            self._show(merging.replace_segments(self._sealed, chosen, new))
            self.seals += name != FIRST_INDEX
            del self._jobs[name]
            self._seal_if_due()
        self._files.forget(chosen)
        chosen.clear()  # so that their memory is free
        if name != FIRST_INDEX:
            release_memory()

    def _merged(self, chosen: list[Segment], make: Make, join: Join) -> Segment:
        living = [part.rows for part in chosen if len(part.rows)]
        steps = StepTimes()
        with steps.of("merging"):
            rows = join(living) if living else join_rows([part.rows for part in chosen])
        try:
            hasty = make == self._builder.hasten
            start = merging.index_start(self._sealed, chosen, rows, hasty=hasty, types=self._types)
            return make(rows, start, steps) if len(rows) else Segment(rows)
        except BaseException:
            if all(rows is not one for one in living):
                self._files.drop(rows)
            raise

    def _sealed_part(self, rows: RowView, start: IndexStart | None, steps: StepTimes) -> Segment:
        return self._files.keep(self._builder.build(rows, start, steps))


def _exact(rows: RowView) -> ModuleType:
    """Where these rows are searched exactly."""
    return exact_engine if rows.file is None else file_search
