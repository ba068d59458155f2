"""Builds the index of a segment: types are tried, and search settings are chosen by measured recall.

Recall@k of a query is the share of the answer that scores at least as much as the true k-th row, so twins
count as hits. A few queries tell it to within a standard error: a setting is taken that reaches the target by
that much more, if there is one. Queries of the other side are apart from the rows (the modality gap) and two
to four times harder than rows are; without any, rows are asked for each other.
"""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32, Float64

from index.contracts import FLAT, EngineKey, Ids, IndexEngine, IndexPlan, RowRankings, Space
from index.engines import exact_engine, faiss_library, file_search, index_build
from index.engines.exact_engine import RowView
from index.engines.faiss_index import (
    FLOAT_BYTES,
    ID_BYTES,
    BuildStopped,
    FaissIndex,
    IndexStart,
    SearchSetting,
)
from index.engines.faiss_library import faiss, reduction_for
from index.engines.segments import UNBUILT, RejectedType, Segment, SegmentReport, search_once
from multifold.scores import apply_signs
from multifold.types import SIDES, Aspect, Features, Metric, Side, Vector, Vectors

LIMITS = (10, 100)  # answers of these sizes are measured; in between and beyond the effort is scaled
WIDTHS = (1.5, 4.0, 16.0)  # candidates for each row of the answer
SUM_BYTES = 5  # of a row in a file, and whether it was compared
CODE_WIDTHS = (1.5, 4.0, 6.0, 10.0, 16.0)  # where each candidate is read from a file
WIDEST = 64.0  # for types that know no effort but this
STEP = 1.5  # between two efforts
MOST_PROBES = 256
SPARE_SHARE = 16  # of all probes so many more are looked for further: those that missed chose the doubt
ERRORS = 2  # standard errors by which queries that are unlike the rows exceed the target: they differ more


@dataclass(frozen=True)
class ProbeTruth:
    """Queries to measure with, and what a row must score to be among the true `limit` of each."""

    kind: str
    metric: Metric
    rows: RowView
    queries: Vectors
    own: Ids | None  # the rows that the queries are, if they are rows: each is left out of its own answer
    limit: int
    threshold: Float32[np.ndarray, "q 1"]

    def shares(self, answer: RowRankings) -> Float64[np.ndarray, " q"]:
        """The share of its true rows that the answer to each query holds."""
        return np.asarray((_others(answer, self.own)[:, : self.limit] >= self.threshold).mean(axis=1))

    def recall(self, answer: RowRankings) -> tuple[float, float]:
        """The mean share, and its standard error over queries."""
        shares = self.shares(answer)
        return float(shares.mean()), standard_error(shares)

    def search(self, ann: FaissIndex, setting: SearchSetting) -> RowRankings:
        """The answers of a segment that searches as the setting says."""
        limit = setting.limit + (self.own is not None)
        return Segment(self.rows, ann).search(self.metric, self.queries[:], limit, None, setting)

    def measure(self, ann: FaissIndex, setting: SearchSetting) -> tuple[SearchSetting, float]:
        """The setting with the recall and the time on one thread that it has, and the recall that is sure."""
        wider = setting if self.own is None else replace(setting, limit=setting.limit + 1)
        queries = self.queries[:]  # an array that no cell is kept for, so that the time is all of it
        start = time.thread_time()
        answer = search_once(ann, self.metric, self.rows, queries, wider)
        spent = time.thread_time() - start
        recall, error = self.recall(answer)
        return replace(setting, recall=recall, seconds=spent / len(queries)), recall - error


def held_bytes(rows: RowView) -> float:
    """What a row takes in memory, without its index."""
    dim = rows.vectors.shape[1]
    return float(ID_BYTES + FLOAT_BYTES + (FLOAT_BYTES * dim if rows.file is None else SUM_BYTES))


def file_bytes(rows: RowView) -> float:
    """What a row takes in a file of vectors."""
    return 0.0 if rows.file is None else float(rows.vectors.shape[1] * rows.vectors.itemsize)


def standard_error(shares: Float64[np.ndarray, " q"]) -> float:
    """Of the mean of these shares."""
    return float(shares.std() / np.sqrt(len(shares)))


def probe_truths(
    metric: Metric,
    rows: RowView,
    kinds: Mapping[str, Vectors],
    limits: Sequence[int],
    owners: Mapping[str, Ids],
) -> list[tuple[ProbeTruth, ...]]:
    """For each limit what the best rows of probes of each kind score; every row is read and scored once.

    `owners` are the rows that probes of a kind are.
    """
    ends = np.cumsum([len(queries) for queries in kinds.values()])[:-1]
    scores, ids = file_search.nearest_rows(metric, rows, np.concatenate([*kinds.values()]), max(limits) + 1)
    answers = zip(kinds.items(), np.split(scores, ends), np.split(ids, ends), strict=True)
    truths = []
    for (kind, queries), its_scores, its_ids in answers:
        own = owners.get(kind)
        best = _others((its_scores, its_ids), own)
        truths.append(
            [ProbeTruth(kind, metric, rows, queries, own, one, best[:, one - 1 : one]) for one in limits]
        )
    return list(zip(*truths, strict=True))


def unlike_queries(rows: RowView, count: int) -> dict[str, Vectors]:
    """Queries that are unlike the rows, by kind."""
    rng = np.random.default_rng(1)
    some, others = map(rows.take, rng.integers(len(rows), size=(2, count)))
    noise = rng.standard_normal(some.shape).astype(np.float32)
    noise *= (exact_engine.lengths(some) / exact_engine.lengths(noise))[:, None]
    mixed = rows.vectors[rng.integers(len(rows), size=some.shape), np.arange(some.shape[1])]
    mixed = mixed.astype(np.float32)
    kinds = {"rows with noise": some + noise, "means of two rows": (some + others) / 2, "noise": noise}
    return kinds | {"numbers of many rows": mixed}


def secure_setting(
    ann: FaissIndex, setting: SearchSetting, truths: Sequence[ProbeTruth], target: float
) -> SearchSetting:
    """The setting with a doubt: answers that are no surer are looked for further.

    As far as it takes, and as seldom as it may be, for every kind of probes to reach the target.
    """
    answers = [truth.search(ann, setting) for truth in truths]
    found = plain = [truth.shares(answer) for truth, answer in zip(truths, answers, strict=True)]
    sureness = [
        np.array(ann.sureness(truth.queries, scores[:, -1], setting.effort))
        for truth, (scores, _) in zip(truths, answers, strict=True)
    ]
    steps = iter([*ann.cosines(), None])
    while not _reached(found, target):
        setting = replace(setting, doubt=np.inf, cosine=next(steps))
        found = [
            np.ones(len(truth.queries))  # every row is scored: that is how the truth was found
            if setting.cosine is None
            else truth.shares(truth.search(ann, setting))
            for truth in truths
        ]
    if setting.doubt is not None:
        far, doubts = found, np.unique(np.concatenate(sureness))
        for doubt in doubts:
            sure = [each > doubt for each in sureness]
            found = [np.where(*each) for each in zip(sure, plain, far, strict=True)]
            if _reached(found, target):
                break
        spare = np.searchsorted(doubts, doubt) + len(doubts) // SPARE_SHARE
        setting = replace(setting, doubt=float(doubts[min(int(spare), len(doubts) - 1)]))
    recalls = {truth.kind: float(shares.mean()) for truth, shares in zip(truths, found, strict=True)}
    hardest = min(recalls, key=recalls.__getitem__)
    begun = time.thread_time()
    truths[0].search(ann, setting)
    seconds = (time.thread_time() - begun) / len(truths[0].queries)
    return replace(setting, recall=recalls[hardest], seconds=seconds, hardest=hardest)


def _reached(found: Sequence[Float64[np.ndarray, " _"]], target: float) -> bool:
    return all(float(shares.mean()) - ERRORS * standard_error(shares) >= target for shares in found)


def tune_setting(
    ann: FaissIndex,
    truth: ProbeTruth,
    target: float,
    most: float = np.inf,
    near: SearchSetting | None = None,
) -> SearchSetting:
    """The cheapest setting that surely reaches the target, else that reaches it, else what comes nearest.

    One that takes longer than `most` seconds, or than one that surely reaches it, is of no use. A narrow
    setting needs no less effort than a wide one, so it is looked for upwards from there; `near` a setting, at
    its width alone.
    """
    tried: list[tuple[SearchSetting, float]] = []
    least, most_effort = ann.efforts()
    efforts = [least]
    while efforts[-1] < most_effort:
        efforts.append(min(most_effort, max(efforts[-1] + 1, int(efforts[-1] * STEP))))
    widths: Sequence[float] = WIDTHS if truth.rows.file is None else CODE_WIDTHS
    widths = widths[::-1] if len(efforts) > 1 else (*widths, WIDEST)
    place = 0
    if near is not None:
        widths = ((near.candidates - 1) / near.limit,)
        place = min(bisect_left(efforts, near.effort), len(efforts) - 1)
    for width in widths:
        reach = min(len(truth.rows.ids), int(np.ceil(width * truth.limit)) + 1)

        def sure(place: int, reach: int = reach) -> bool:
            setting = SearchSetting(truth.limit, efforts[place], reach, 0.0, 0.0)
            tried.append(truth.measure(ann, setting))
            return tried[-1][1] >= target

        reached = sure(place)
        while reached and near is not None and place > 0 and sure(place - 1):
            place -= 1
        while not reached and place + 1 < len(efforts) and tried[-1][0].seconds <= most:
            place += 1
            reached = sure(place)
        if reached:
            most = min(most, tried[-1][0].seconds)
        if len(efforts) == 1 and reached:
            break  # wider only costs more
        if len(efforts) > 1 and not reached and place + 1 == len(efforts):
            break  # narrower finds no more
    sure_ones = [setting for setting, least in tried if least >= target]
    good = sure_ones or [setting for setting, _ in tried if setting.recall >= target]
    best = max((setting for setting, _ in tried), key=lambda one: one.recall)
    return min(good, key=lambda one: one.seconds, default=best)


def _others(answer: RowRankings, own: Ids | None) -> Float32[np.ndarray, "q k"]:
    scores, ids = answer
    if own is None:
        return scores
    others = np.where(ids == own[:, None], np.float32(-np.inf), scores)
    return np.asarray(-np.sort(-others, axis=1), np.float32)


log = logging.getLogger(__name__)

FEWEST = 10  # rows for each row of a measured answer
FIRST_INDEX_TYPES = ("RaBitQfs", "SQ8")  # nothing to learn but a mean: thousands of rows in a moment
FIRST_INDEX_PROBES = 64
UNLIKE_SHARE = 2  # as many probes of each kind that is unlike the rows


@dataclass(frozen=True)
class SegmentBuilder:
    """Builds the parts of one engine. `ask` gives real queries, or None while there are none."""

    metric: Metric
    plan: IndexPlan
    ask: Callable[[int], Vectors | None]
    signs: Vector | None
    threads: int
    stopped: Callable[[], bool]

    def build(self, rows: RowView, start: IndexStart | None) -> Segment:
        """Seal living rows, in known cells first; below the target the next type is tried, at last none."""
        begun = time.perf_counter()
        faiss.omp_set_num_threads(self.threads)
        on_gpu = faiss_library.uses_gpu(self.plan.device)
        codes = rows.file is not None
        types = self.plan.ladder(len(rows), gpu=on_gpu, codes=codes)
        truths = self._truths(rows) if start or types[0] != FLAT else []
        probes = truths[0][0] if truths else None
        built, missed = list[FaissIndex](), list[RejectedType]()
        if start and (ann := self._extended(start, truths)):
            built.append(ann)
        for name in types[:-1]:
            if built and (codes or not built[-1].strained):
                break
            most = min(map(FaissIndex.seconds, built), default=np.inf)
            ann = self._tried(name, truths, most, on_gpu=on_gpu)
            if ann.recall >= self.plan.recall:
                built.append(ann)
            elif not built:
                missed.append(RejectedType(name, ann.recall))
        best = min(built, key=FaissIndex.seconds, default=None)
        report = SegmentReport(
            FLAT if best is None else best.type,
            len(rows),
            self.plan.recall,
            0 if probes is None else len(probes.queries),
            "nothing" if probes is None else probes.kind,
            () if best is None else best.settings,
            held_bytes(rows) + (0 if best is None else best.bytes() / max(1, len(rows))),
            time.perf_counter() - begun,
            tuple(missed),
            file_bytes(rows),
        )
        log.log(logging.WARNING if missed else logging.INFO, "sealed %s", report)
        return Segment(rows, best, report)

    def wait(self, rows: RowView) -> Segment:
        """Rows that were filled in, each of which is scored until their index is built."""
        size, apart = held_bytes(rows), file_bytes(rows)
        return Segment(
            rows, None, SegmentReport(FLAT, len(rows), UNBUILT, 0, "nothing", (), size, 0.0, (), apart)
        )

    def hasten(self, rows: RowView, start: IndexStart | None) -> Segment:
        """Rows that wait to be sealed, with an index that is made quickly, measured by fewer probes."""
        truths = self._truths(rows, FIRST_INDEX_PROBES)
        if start and (ann := self._extended(start, truths)):
            return Segment(rows, ann)
        tried = (self._tried(name, truths) for name in FIRST_INDEX_TYPES)
        return Segment(rows, next((ann for ann in tried if ann.recall >= self.plan.recall), None))

    def retune(self, part: Segment, queries: Vectors | None) -> Segment:
        """A sealed part that looks far enough for queries unlike its rows, and for these that came."""
        assert part.ann is not None
        came = {} if queries is None else {"queries that came": queries}
        kinds = came | self._unlike(part.rows, MOST_PROBES)
        limits = [one.limit for one in part.ann.settings]
        known = probe_truths(self.metric, part.rows, kinds, limits, {})
        settings = []
        for one, truths in zip(part.ann.settings, known, strict=True):
            plain = replace(one, doubt=None, cosine=None)
            settings.append(secure_setting(part.ann, plain, truths, self.plan.recall))
        report = replace(part.seal, settings=tuple(settings))
        return replace(part, ann=replace(part.ann, settings=tuple(settings)), report=report)

    def _unlike(self, rows: RowView, count: int) -> dict[str, Vectors]:
        kinds = unlike_queries(rows, count // UNLIKE_SHARE).items()
        return {kind: apply_signs(queries, self.signs) for kind, queries in kinds}

    def _truths(self, rows: RowView, count: int = MOST_PROBES) -> list[tuple[ProbeTruth, ...]]:
        """For each size of an answer the probes to tune with, and those that are unlike the rows."""
        limits = [limit for limit in LIMITS if limit * FEWEST <= len(rows)] or LIMITS[:1]
        queries, owners = self.ask(count), dict[str, Ids]()
        if queries is not None:
            kinds = {"queries": queries}
        else:
            some = np.sort(np.random.default_rng(0).permutation(len(rows))[:count])
            kinds, owners = {"rows": apply_signs(rows.take(some), self.signs)}, {"rows": rows.ids[some]}
        return probe_truths(self.metric, rows, kinds | self._unlike(rows, count), limits, owners)

    def _extended(self, start: IndexStart, truths: list[tuple[ProbeTruth, ...]]) -> FaissIndex | None:
        """An index in known cells, with settings for every limit; None where the target is not reached."""
        known = index_build.extend_index(start, truths[0][0].rows, self.stopped)
        ann = known and self._tuned(known, truths, known=True)
        return ann if ann and ann.recall >= self.plan.recall else None

    def _tried(
        self, name: str, truths: list[tuple[ProbeTruth, ...]], most: float = np.inf, *, on_gpu: bool = False
    ) -> FaissIndex:
        """An index of this type with settings for every limit, which may miss the target."""
        rows = truths[0][0].rows
        reduced = reduction_for(self.metric, rows.vectors.shape[1], rows.lengths)
        ann = index_build.build_index(name, rows, reduced, on_gpu=on_gpu, stopped=self.stopped)
        return self._tuned(ann, truths, most)

    def _tuned(
        self,
        ann: FaissIndex,
        truths: list[tuple[ProbeTruth, ...]],
        most: float = np.inf,
        *,
        known: bool = False,
    ) -> FaissIndex:
        """The index with settings for every limit, near those that it has where they are `known`."""
        faiss.omp_set_num_threads(1)
        settings = []
        for truth, *unlike in truths:
            if self.stopped():
                raise BuildStopped
            near = ann.setting(truth.limit) if known else None
            setting = tune_setting(ann, truth, self.plan.recall, most, near)
            if setting.recall >= self.plan.recall:
                setting = secure_setting(ann, setting, [truth, *unlike], self.plan.recall)
            settings.append(setting)
        faiss.omp_set_num_threads(self.threads)
        return replace(ann, settings=tuple(settings))


MIN_QUERIES = 32  # queries that are worth measuring with


def real_queries(
    space: Space,
    side: Aspect,
    count: int,
    probes: Mapping[Side, Features],
    stored: Mapping[EngineKey, IndexEngine],
) -> Float32[np.ndarray, "q d"] | None:
    """Queries of the other sides: the encoder's own probes, else what is stored; None where these are few."""
    for other in (one for one in SIDES if one != side):
        vectors = None
        if other in probes:
            vectors = space.vectors(probes[other][:count])
        elif (other, "observation") in stored:
            vectors = stored[other, "observation"].sample(count)
        if vectors is not None and len(vectors) >= MIN_QUERIES:
            return apply_signs(vectors, space.query_signs)
    return None
