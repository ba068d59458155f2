"""Builds the index of a segment: types are tried, and search settings are chosen by measured recall.

Recall@k of a query is the share of the answer that scores at least as much as the true k-th row, so twins
count as hits. A few queries tell it to within a standard error: a setting is taken that reaches the target by
that much more, if there is one. Queries are those of the other side where there are any: they are apart from
the rows (the modality gap) and are two to four times harder than rows are. Otherwise rows are asked for each
other.

Of those that find it with an effort the fastest is taken.
"""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32

from index.contracts import FLAT, EngineKey, Ids, IndexEngine, IndexPlan, RowRankings, Space
from index.engines import exact_engine, faiss_library
from index.engines.exact_engine import RowView
from index.engines.faiss_index import (
    BuildStopped,
    FaissIndex,
    IndexStart,
    SearchSetting,
    build_index,
    extend_index,
)
from index.engines.faiss_library import faiss, reduction_for
from index.engines.segments import RejectedType, Segment, SegmentReport, search_once
from multifold.scores import apply_signs
from multifold.types import SIDES, Features, Metric, Side, Vector, Vectors

LIMITS = (10, 100)  # answers of these sizes are measured; in between and beyond the effort is scaled
WIDTHS = (1.5, 4.0, 16.0)  # candidates for each row of the answer
WIDEST = 64.0  # for types that know no effort but this
STEP = 1.5  # between two efforts
MOST_PROBES = 256


@dataclass(frozen=True)
class TuningProbes:
    """Queries as an engine gets them; `own` are the rows that they are, if they are rows."""

    queries: Vectors
    own: Ids | None = None

    @property
    def name(self) -> str:
        """Where they come from."""
        return "queries" if self.own is None else "rows"


@dataclass(frozen=True)
class ProbeTruth:
    """Probes, and the score that a row must reach to be among the true `limit`."""

    probes: TuningProbes
    limit: int
    threshold: Float32[np.ndarray, "q 1"]

    def recall(self, answer: RowRankings) -> tuple[float, float]:
        """The share of the true rows that an answer holds, and its standard error over queries."""
        shares = (_others(answer, self.probes)[:, : self.limit] >= self.threshold).mean(axis=1)
        return float(shares.mean()), float(shares.std() / np.sqrt(len(shares)))


def held_out_probes(rows: RowView, signs: Vector | None, count: int = MOST_PROBES) -> TuningProbes:
    """Rows that stand in for queries; each is left out of its own answer."""
    some = np.sort(np.random.default_rng(0).permutation(len(rows.ids))[:count])
    return TuningProbes(apply_signs(rows.vectors[some], signs), rows.ids[some])


def probe_truths(
    metric: Metric, rows: RowView, probes: TuningProbes, limits: Sequence[int]
) -> list[ProbeTruth]:
    """What the best rows of each probe score, by scoring every row."""
    scores = _others(exact_engine.nearest_rows(metric, rows, probes.queries, max(limits) + 1), probes)
    return [ProbeTruth(probes, limit, scores[:, limit - 1 : limit]) for limit in limits]


def tune_setting(
    ann: FaissIndex,
    metric: Metric,
    rows: RowView,
    truth: ProbeTruth,
    target: float,
    most: float = np.inf,
    near: SearchSetting | None = None,
) -> SearchSetting:
    """The cheapest setting that surely reaches the target, else that reaches it, else what comes nearest.

    Nothing that takes longer than `most` seconds a query is gone beyond. A wider setting needs no more effort
    than a narrow one, so it is looked for downwards from there; `near` a setting, at its width alone.
    """
    tried: list[tuple[SearchSetting, float]] = []
    least, most_effort = ann.efforts()
    efforts = [least]
    while efforts[-1] < most_effort:
        efforts.append(min(most_effort, max(efforts[-1] + 1, int(efforts[-1] * STEP))))
    widths: Sequence[float] = WIDTHS if len(efforts) > 1 else (*WIDTHS, WIDEST)
    place = 0
    if near is not None:
        widths = ((near.candidates - 1) / near.limit,)
        place = min(bisect_left(efforts, near.effort), len(efforts) - 1)
    for width in widths:

        def sure(place: int, width: float = width) -> bool:
            reach = min(len(rows.ids), int(np.ceil(width * truth.limit)) + 1)
            setting = SearchSetting(truth.limit, efforts[place], reach, 0.0, 0.0)
            tried.append(measure_setting(ann, metric, rows, truth, setting))
            return tried[-1][1] >= target

        reached = sure(place)
        while reached and place > 0 and sure(place - 1):
            place -= 1
        while not reached and place + 1 < len(efforts) and tried[-1][0].seconds <= most:
            place += 1
            reached = sure(place)
        if not reached:
            place = 0
        elif len(efforts) == 1:
            break  # wider only costs more
    good = [setting for setting, least in tried if least >= target]
    good = good or [setting for setting, _ in tried if setting.recall >= target]
    if good:
        return min(good, key=lambda one: one.seconds)
    return max((setting for setting, _ in tried), key=lambda one: one.recall)


def measure_setting(
    ann: FaissIndex, metric: Metric, rows: RowView, truth: ProbeTruth, setting: SearchSetting
) -> tuple[SearchSetting, float]:
    """The setting with the recall and the time on one thread that it has, and the recall that is sure."""
    wider = setting if truth.probes.own is None else replace(setting, limit=setting.limit + 1)
    queries = truth.probes.queries[:]  # an array that no cell is kept for, so that the time is all of it
    start = time.thread_time()
    answer = search_once(ann, metric, rows, queries, wider)
    spent = time.thread_time() - start
    recall, error = truth.recall(answer)
    return replace(setting, recall=recall, seconds=spent / len(truth.probes.queries)), recall - error


def _others(answer: RowRankings, probes: TuningProbes) -> Float32[np.ndarray, "q k"]:
    """Scores, best first, without those of the probes themselves."""
    scores, ids = answer
    if probes.own is None:
        return scores
    others = np.where(ids == probes.own[:, None], np.float32(-np.inf), scores)
    return np.asarray(-np.sort(-others, axis=1), np.float32)


log = logging.getLogger(__name__)

FEWEST = 10  # rows for each row of a measured answer
FIRST_INDEX_TYPES = ("RaBitQfs", "SQ8")  # nothing to learn but a mean: thousands of rows in a moment
FIRST_INDEX_PROBES = 64


@dataclass(frozen=True)
class SegmentBuilder:
    """Builds the parts of one engine. `ask` gives real queries, or None while there are none."""

    metric: Metric
    plan: IndexPlan
    ask: Callable[[int], Vectors | None]
    signs: Vector | None
    threads: int

    def build(self, rows: RowView, start: IndexStart | None, stopped: Callable[[], bool]) -> Segment:
        """Seal rows that are all alive; below the target the next type is tried, at last none is needed.

        Cells that are known come first.
        """
        begun = time.perf_counter()
        faiss.omp_set_num_threads(self.threads)
        on_gpu = faiss_library.uses_gpu(self.plan.device)
        types = self.plan.ladder(len(rows.ids), gpu=on_gpu)
        truths = self._truths(rows) if start or types[0] != FLAT else []
        built, missed = list[FaissIndex](), list[RejectedType]()
        if start and (ann := self._extended(start, rows, truths, stopped)):
            built.append(ann)
        for name in types[:-1]:
            if built and not built[-1].strained:
                break
            most = min(map(FaissIndex.seconds, built), default=np.inf)
            notes = [] if built else missed
            if (ann := self._tried(name, rows, truths, notes, stopped, most, on_gpu=on_gpu)) is not None:
                built.append(ann)
        best = min(built, key=FaissIndex.seconds, default=None)
        report = self._report(rows, best, truths, missed, time.perf_counter() - begun)
        log.log(logging.WARNING if missed else logging.INFO, "sealed %s", report)
        return Segment(rows, best, report)

    def indexes(self, rows: int) -> bool:
        """Whether the plan has so many rows indexed, not scored one by one."""
        return self.plan.ladder(rows, gpu=faiss_library.uses_gpu(self.plan.device))[0] != FLAT

    def hasten(self, rows: RowView, start: IndexStart | None, stopped: Callable[[], bool]) -> Segment:
        """Rows that wait to be sealed, with an index that is made quickly, measured by fewer probes."""
        truths = self._truths(rows, FIRST_INDEX_PROBES)
        if start and (ann := self._extended(start, rows, truths, stopped)):
            return Segment(rows, ann)
        tried = (self._tried(name, rows, truths, [], stopped) for name in FIRST_INDEX_TYPES)
        return Segment(rows, next((ann for ann in tried if ann is not None), None))

    def _truths(self, rows: RowView, count: int = MOST_PROBES) -> list[ProbeTruth]:
        queries = self.ask(count)
        probes = held_out_probes(rows, self.signs, count) if queries is None else TuningProbes(queries)
        limits = [limit for limit in LIMITS if limit * FEWEST <= len(rows.ids)]
        return probe_truths(self.metric, rows, probes, limits or LIMITS[:1])

    def _extended(
        self, start: IndexStart, rows: RowView, truths: list[ProbeTruth], stopped: Callable[[], bool]
    ) -> FaissIndex | None:
        """An index in known cells, with settings for every limit; None where the target is not reached."""
        ann = extend_index(start, rows, stopped)
        if ann is None:
            return None
        faiss.omp_set_num_threads(1)
        target = self.plan.recall
        settings = [
            tune_setting(ann, self.metric, rows, one, target, near=ann.setting(one.limit)) for one in truths
        ]
        faiss.omp_set_num_threads(self.threads)
        reached = min(setting.recall for setting in settings) >= target
        return replace(ann, settings=tuple(settings)) if reached else None

    def _tried(
        self,
        name: str,
        rows: RowView,
        truths: list[ProbeTruth],
        missed: list[RejectedType],
        stopped: Callable[[], bool],
        most: float = np.inf,
        *,
        on_gpu: bool = False,
    ) -> FaissIndex | None:
        """An index that reaches the target with settings for every limit; None notes what it missed by.

        One that takes longer than `most` seconds a query is of no use, and need not reach it.
        """
        reduced = reduction_for(self.metric, rows.vectors.shape[1], rows.lengths)
        ann = build_index(name, rows, reduced, on_gpu=on_gpu, stopped=stopped)
        faiss.omp_set_num_threads(1)
        settings = []
        for one in truths:
            if stopped():
                raise BuildStopped
            settings.append(tune_setting(ann, self.metric, rows, one, self.plan.recall, most))
        faiss.omp_set_num_threads(self.threads)
        worst = min(setting.recall for setting in settings)
        if worst < self.plan.recall:
            missed.append(RejectedType(name, worst))
            return None
        return replace(ann, settings=tuple(settings))

    def _report(
        self,
        rows: RowView,
        ann: FaissIndex | None,
        truths: list[ProbeTruth],
        missed: list[RejectedType],
        seconds: float,
    ) -> SegmentReport:
        size, dim = rows.vectors.shape
        return SegmentReport(
            FLAT if ann is None else ann.type,
            size,
            self.plan.recall,
            len(truths[0].probes.queries) if truths else 0,
            truths[0].probes.name if truths else "nothing",
            () if ann is None else ann.settings,
            4.0 * dim + (0 if ann is None else ann.bytes() / max(1, size)),
            seconds,
            tuple(missed),
        )


MIN_QUERIES = 32  # queries that are worth measuring with


def real_queries(
    space: Space,
    side: Side,
    count: int,
    probes: Mapping[Side, Features],
    stored: Mapping[EngineKey, IndexEngine],
) -> Float32[np.ndarray, "q d"] | None:
    """Queries of the other sides: the encoder's own probes, else what is stored; None where these are few."""
    for other in (one for one in SIDES if one != side):
        if other in probes:
            vectors = space.vectors(probes[other][:count])
        elif (other, "observation") in stored:
            vectors = stored[other, "observation"].sample(count)
        else:
            continue
        if len(vectors) >= MIN_QUERIES:
            return apply_signs(vectors, space.query_signs)
    return None
