"""Chooses how hard an index is searched, by measured recall.

Recall@k of a query is the share of the answer that scores at least as much as the true k-th row, so twins
count as hits. A few queries tell it to within a standard error: a setting is taken that reaches the target by
that much more, if there is one.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int64

from index.contracts import Ids, RowRankings
from index.engines import file_search, scoring
from index.engines.exact_engine import RowView
from index.engines.faiss_index import FaissIndex
from index.engines.search_setting import SearchSetting
from index.engines.segment_search import rescore, search_once, search_segment
from index.engines.segments import Segment
from multifold.types import Metric, Vectors

WIDTHS = (1.5, 4.0, 16.0)  # candidates for each row of the answer
CODE_WIDTHS = (1.5, 4.0, 6.0, 10.0, 16.0)  # where each candidate is read from a file
WIDEST_SEARCH = 64.0  # for types that know no effort but this
EFFORT_STEP = 1.5  # between two efforts
STRANGE_ERRORS = 2  # standard errors by which queries that are unlike the rows exceed the target
LIKE = 16  # of so many probes one may be unlike all that was measured before
Shares: TypeAlias = Float64[np.ndarray, " _"]


@dataclass(frozen=True, eq=False)
class ProbeTruth:
    """Queries to measure with, and what a row must score to be among the true `limit` of each."""

    kind: str
    metric: Metric
    rows: RowView
    queries: Vectors
    own: Ids | None  # the rows that the queries are, if they are rows: each is left out of its own answer
    limit: int
    threshold: Float32[np.ndarray, "q 1"]
    places: Int64[np.ndarray, "q k"]  # of the true rows

    def shares(self, answer: RowRankings) -> Shares:
        """The share of its true rows that the answer to each query holds."""
        return np.asarray((_others(answer, self.own)[0][:, : self.limit] >= self.threshold).mean(axis=1))

    def few(self, count: int) -> "ProbeTruth":
        """The same for the first of the queries."""
        own = None if self.own is None else self.own[:count]
        queries = self.queries[:count]
        threshold = self.threshold[:count]
        places = self.places[:count]
        return replace(self, queries=queries, threshold=threshold, places=places, own=own)

    def recall(self, answer: RowRankings) -> tuple[float, float]:
        """The mean share, and its standard error over queries."""
        shares = self.shares(answer)
        return float(shares.mean()), standard_error(shares)

    def search(
        self, ann: FaissIndex, setting: SearchSetting, count_unlike: Callable[[int], object] = int
    ) -> RowRankings:
        """The answers of a segment that searches as the setting says."""
        limit, part = setting.limit + (self.own is not None), Segment(self.rows, ann)
        return search_segment(part, self.metric, self.queries[:], limit, None, setting, count_unlike)

    def others(self, answer: RowRankings) -> Float32[np.ndarray, "q k"]:
        """What the rows of answers score but those that the queries are, best first."""
        return _others(answer, self.own)[0]

    def first_look(self, ann: FaissIndex, effort: int, width: float) -> Float32[np.ndarray, "q k"]:
        """What rows score that are found in so many cells, of so many candidates for each; best first."""
        count = min(ann.most, int(np.ceil(width * self.limit)) + 1)
        part = Segment(self.rows, ann)
        positions = ann.candidates(self.queries, count, effort, part.selection())
        good, limit = positions >= 0, self.limit + (self.own is not None)
        scores, places = rescore(self.metric, self.rows, self.queries, positions, good, limit)
        return self.others((scores, part.ids_at(places)))[:, : self.limit]

    def measure(self, ann: FaissIndex, setting: SearchSetting) -> tuple[SearchSetting, float]:
        """The setting with the recall and the time on one thread that it has, and the recall that is sure."""
        wider = replace(setting, limit=setting.limit + (self.own is not None))
        queries = self.queries[:]  # an array that no cell is kept for, so that the time is all of it
        start = time.thread_time()
        if ann.cells is None:
            answer = search_once(ann, self.metric, self.rows, queries, wider)
        else:
            answer = self.search(ann, setting)
        spent = time.thread_time() - start
        recall, error = self.recall(answer)
        return replace(setting, recall=recall, seconds=spent / len(self.queries)), recall - error


def settings_do(ann: FaissIndex, truths: Sequence[ProbeTruth], target: float) -> bool:
    """Whether probes of all kinds find enough with the settings of an index, to within a standard error.

    Those that are unlike all that was measured find every row, but take long. Usual ones and rows are not.
    """
    for truth in truths:
        unlike: list[int] = []
        recall, error = truth.recall(truth.search(ann, ann.setting(truth.limit), unlike.append))
        ordinary = truth is truths[0] or truth.own is not None
        if recall + error < target or (ordinary and sum(unlike) * LIKE > len(truth.queries)):
            return False
    return True


def standard_error(shares: Shares) -> float:
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
        best, names = _others((its_scores, its_ids), own)
        places = np.searchsorted(rows.ids, names)
        truths.append(
            [
                ProbeTruth(kind, metric, rows, queries, own, one, best[:, one - 1 : one], places[:, :one])
                for one in limits
            ]
        )
    return list(zip(*truths, strict=True))


def unlike_queries(rows: RowView, count: int) -> dict[str, Vectors]:
    """Queries that are unlike the rows, by kind."""
    rng = np.random.default_rng(1)
    some, others, third = map(rows.take, rng.integers(len(rows), size=(3, count)))
    noise = rng.standard_normal(some.shape).astype(np.float32)
    noise *= (scoring.lengths(some) / scoring.lengths(noise))[:, None]
    mixed = rows.vectors[rng.integers(len(rows), size=some.shape), np.arange(some.shape[1])]
    mixed = mixed.astype(np.float32)
    single = np.zeros_like(some)
    single[np.arange(count), rng.integers(some.shape[1], size=count)] = scoring.lengths(some)
    kinds = {"rows with noise": some + noise, "means of two rows": (some + others) / 2}
    kinds |= {"mixes of three rows": some + others - third, "noise": noise}
    return kinds | {"numbers of many rows": mixed, "negated rows": -some, "single numbers": single}


def secure_setting(
    ann: FaissIndex, setting: SearchSetting, truths: Sequence[ProbeTruth], target: float
) -> SearchSetting:
    """The setting for a type without cells, with a distance beyond which every row is scored.

    It is the largest with which every kind of probes reaches the target.
    """
    answers = [(truth, truth.search(ann, setting)) for truth in truths]
    plain = [truth.shares(answer) for truth, answer in answers]
    ends = [(truth.queries, truth.others(answer)[:, setting.limit - 1]) for truth, answer in answers]
    last = np.concatenate([ann.distances(queries, scores) for queries, scores in ends])
    far, parts = np.unique(last)[::-1], np.cumsum([len(truth.queries) for truth in truths])[:-1]

    def found(place: int) -> list[Shares]:
        near = np.split(last <= (far[place] if place < len(far) else -np.inf), parts)
        return [np.where(own, shares, 1.0) for own, shares in zip(near, plain, strict=True)]

    place = bisect_left(range(len(far)), True, key=lambda place: _reached(found(place), target))
    recalls = {truth.kind: float(one.mean()) for truth, one in zip(truths, found(place), strict=True)}
    hardest = min(recalls, key=recalls.__getitem__)
    bound = float(far[place]) if place < len(far) else -np.inf
    far_from_all = bound if np.isfinite(bound) else 0.0
    return replace(setting, far=far_from_all, recall=recalls[hardest], hardest=hardest)


def _reached(found: Sequence[Shares], target: float) -> bool:
    return all(float(shares.mean()) - STRANGE_ERRORS * standard_error(shares) >= target for shares in found)


def widths(rows: RowView) -> Sequence[float]:
    """Candidates for each row of the answer that are worth a trial, the fewest first."""
    return WIDTHS if rows.file is None else CODE_WIDTHS


def tune_setting(
    ann: FaissIndex,
    truth: ProbeTruth,
    target: float,
    most: float = np.inf,
) -> SearchSetting:
    """The cheapest setting that surely reaches the target, else that reaches it, else what comes nearest.

    One that takes longer than `most` seconds, or than one that surely reaches it, is of no use. A narrow
    setting needs no less effort than a wide one, so it is looked for upwards from there.
    """
    tried: list[tuple[SearchSetting, float]] = []
    least, most_effort = ann.efforts
    efforts = [least]
    while efforts[-1] < most_effort:
        efforts.append(min(most_effort, max(efforts[-1] + 1, int(efforts[-1] * EFFORT_STEP))))
    tries = widths(truth.rows)
    tries = tries[::-1] if len(efforts) > 1 else (*tries, WIDEST_SEARCH)
    place = 0
    for width in tries:
        reach = min(ann.most, int(np.ceil(width * truth.limit)) + 1)

        def sure(place: int, reach: int = reach) -> bool:
            setting = SearchSetting(truth.limit, efforts[place], reach, 0.0, 0.0)
            tried.append(truth.measure(ann, setting))
            return tried[-1][1] >= target

        reached = sure(place)
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


def _others(answer: RowRankings, own: Ids | None) -> RowRankings:
    scores, ids = answer
    if own is None:
        return scores, ids
    scores = np.where(ids == own[:, None], np.float32(-np.inf), scores)
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(scores, order, 1), np.take_along_axis(ids, order, 1)
