"""Chooses how hard an index is searched, by measured recall.

Recall@k of a query is the share of the answer that scores at least as much as the true k-th row, so twins
count as hits. A few queries tell it to within a standard error: a setting is taken that reaches the target by
that much more, if there is one.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64

from index.contracts import Ids, RowRankings
from index.engines import file_search, scoring
from index.engines.exact_engine import RowView
from index.engines.faiss_index import FaissIndex, SearchSetting
from index.engines.segments import Segment, search_once
from multifold.types import Metric, Vectors

WIDTHS = (1.5, 4.0, 16.0)  # candidates for each row of the answer
CODE_WIDTHS = (1.5, 4.0, 6.0, 10.0, 16.0)  # where each candidate is read from a file
WIDEST = 64.0  # for types that know no effort but this
STEP = 1.5  # between two efforts
SPARE_SHARE = 16  # of all probes so many more are looked for further: those that missed chose the doubt
FURTHER = (1, 3, 9)  # times as many candidates, of which the least that is enough is taken
TOGETHER = 32  # probes that are asked before it is seen whether more are of use
ERRORS = 2  # standard errors by which queries that are unlike the rows exceed the target: they differ more
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

    def shares(self, answer: RowRankings) -> Shares:
        """The share of its true rows that the answer to each query holds."""
        return np.asarray((_others(answer, self.own)[:, : self.limit] >= self.threshold).mean(axis=1))

    def parts(self) -> Iterator["ProbeTruth"]:
        """The same for some of the queries at a time."""
        for start in range(0, len(self.queries), TOGETHER):
            some = slice(start, start + TOGETHER)
            own = None if self.own is None else self.own[some]
            yield replace(self, queries=self.queries[some], threshold=self.threshold[some], own=own)

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


def standard_error(shares: Shares) -> float:
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
    noise *= (scoring.lengths(some) / scoring.lengths(noise))[:, None]
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
    usual, answers = truths[0], {truth: truth.search(ann, setting) for truth in truths}
    truths = sorted(truths, key=lambda truth: truth.recall(answers[truth]))  # the hardest first
    plain = [truth.shares(answers[truth]) for truth in truths]
    found: Sequence[Shares] = plain
    steps = iter([*ann.cosines(), None])
    if not _reached(plain, target) and ann.cells is not None:
        setting = replace(setting, further=_times_further(ann, setting, truths[0], target))
    while not _reached(found, target):
        setting = replace(setting, doubt=np.inf, cosine=next(steps))
        if setting.cosine is None:  # every row is scored: that is how the truth was found
            found = [np.ones(len(truth.queries)) for truth in truths]
        else:
            found = _shares_if_reached(ann, setting, truths, target)
    if setting.doubt is not None:
        sureness = [
            np.array(ann.sureness(truth.queries, answers[truth][0][:, -1], setting.effort))
            for truth in truths
        ]
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
    usual.search(ann, setting)
    seconds = (time.thread_time() - begun) / len(usual.queries)
    return replace(setting, recall=recalls[hardest], seconds=seconds, hardest=hardest)


def _times_further(ann: FaissIndex, setting: SearchSetting, hardest: ProbeTruth, target: float) -> int:
    """How many times as many candidates it takes for codes to hide few true rows, in however many cells."""
    few = next(hardest.parts())
    for times in FURTHER:
        whole = replace(setting, effort=ann.efforts()[1], candidates=times * setting.candidates)
        if few.shares(few.search(ann, whole)).mean() >= (1 + target) / 2:
            break
    return times


def _shares_if_reached(
    ann: FaissIndex, setting: SearchSetting, truths: Sequence[ProbeTruth], target: float
) -> list[Shares]:
    """What is found of each kind; of the first that surely misses the target no more is asked."""
    found = list[Shares]()
    for truth in truths:
        shares: Shares = np.empty(0)
        for part in truth.parts():
            shares = np.concatenate([shares, part.shares(part.search(ann, setting))])
            if shares.mean() + ERRORS * standard_error(shares) < target:
                return [shares]
        found.append(shares)
        if not _reached([shares], target):
            break
    return found


def _reached(found: Sequence[Shares], target: float) -> bool:
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
        reach = min(ann.most, int(np.ceil(width * truth.limit)) + 1)

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
