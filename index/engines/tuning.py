"""Recall is measured, and search parameters are chosen by it.

Recall@k of a query is the share of the answer that scores at least as much as the true k-th row, so twins
count as hits. A few queries tell it to within a standard error: a setting is taken that reaches the target by
that much more, if there is one. Queries are those of the other side where there are any: they lie apart from
the rows (the modality gap) and are two to four times harder than rows are. Otherwise rows are asked for each
other.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32

from index.base import Ids, Ranked
from index.engines import neighbours
from index.engines.ann import Ann, Setting
from index.engines.parts import look
from index.engines.rowview import RowView
from multifold.scores import signed
from multifold.types import Metric, Vector, Vectors

LIMITS = (10, 100)  # answers of these sizes are measured; in between and beyond the effort is scaled
WIDTHS = (1.5, 4.0, 16.0)  # candidates for each row of the answer
WIDEST = 64.0  # for types that know no effort but this
STEP = 1.5  # between two efforts
MOST_PROBES = 256


@dataclass(frozen=True)
class Probes:
    """Queries as an engine gets them; `own` are the rows that they are, if they are rows."""

    queries: Vectors
    own: Ids | None = None

    @property
    def name(self) -> str:
        """Where they come from."""
        return "queries" if self.own is None else "rows"


@dataclass(frozen=True)
class Truth:
    """Probes, and the score that a row must reach to be among the true `limit`."""

    probes: Probes
    limit: int
    threshold: Float32[np.ndarray, "q 1"]

    def recall(self, answer: Ranked) -> tuple[float, float]:
        """The share of the true rows that an answer holds, and its standard error over queries."""
        shares = (_others(answer, self.probes)[:, : self.limit] >= self.threshold).mean(axis=1)
        return float(shares.mean()), float(shares.std() / np.sqrt(len(shares)))


def held_out(rows: RowView, signs: Vector | None, count: int = MOST_PROBES) -> Probes:
    """Rows that stand in for queries; each is left out of its own answer."""
    some = np.sort(np.random.default_rng(0).permutation(len(rows.ids))[:count])
    return Probes(signed(rows.vectors[some], signs), rows.ids[some])


def truths(metric: Metric, rows: RowView, probes: Probes, limits: Sequence[int]) -> list[Truth]:
    """What the best rows of each probe score, by looking at every row."""
    scores = _others(neighbours.search(metric, rows, probes.queries, max(limits) + 1), probes)
    return [Truth(probes, limit, scores[:, limit - 1 : limit]) for limit in limits]


def tune(
    ann: Ann,
    metric: Metric,
    rows: RowView,
    known: Truth,
    target: float,
    most: float = np.inf,
    near: Setting | None = None,
) -> Setting:
    """The cheapest setting that surely reaches the target, else that reaches it, else what comes nearest.

    Nothing that takes longer than `most` seconds a query is gone beyond. A wider setting needs no more effort
    than a narrow one, so it is looked for downwards from there; `near` a setting, at its width alone.
    """
    tried: list[tuple[Setting, float]] = []
    efforts = list(_efforts(*ann.efforts()))
    widths: Sequence[float] = WIDTHS if len(efforts) > 1 else (*WIDTHS, WIDEST)
    place = 0
    if near is not None:
        widths = ((near.candidates - 1) / near.limit,)
        place = min(bisect_left(efforts, near.effort), len(efforts) - 1)
    for width in widths:

        def sure(place: int, width: float = width) -> bool:
            setting = _start(known.limit, width, efforts[place], len(rows.ids))
            tried.append(measure(ann, metric, rows, known, setting))
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


def measure(ann: Ann, metric: Metric, rows: RowView, known: Truth, setting: Setting) -> tuple[Setting, float]:
    """The setting with the recall and the time on one thread that it has, and the recall that is sure."""
    wider = setting if known.probes.own is None else replace(setting, limit=setting.limit + 1)
    asked = known.probes.queries[:]  # as nobody asked before, so that the time is all that it takes
    start = time.thread_time()
    answer = look(ann, metric, rows, asked, wider)
    spent = time.thread_time() - start
    recall, error = known.recall(answer)
    return replace(setting, recall=recall, seconds=spent / len(known.probes.queries)), recall - error


def _others(answer: Ranked, probes: Probes) -> Float32[np.ndarray, "q k"]:
    """Scores, best first, without those of the probes themselves."""
    scores, ids = answer
    if probes.own is None:
        return scores
    others = np.where(ids == probes.own[:, None], np.float32(-np.inf), scores)
    return np.asarray(-np.sort(-others, axis=1), np.float32)


def _start(limit: int, width: float, effort: int, rows: int) -> Setting:
    return Setting(limit, effort, min(rows, int(np.ceil(width * limit)) + 1), 0.0, 0.0)


def _efforts(least: int, most: int) -> Iterator[int]:
    effort = least
    while effort < most:
        yield effort
        effort = max(effort + 1, int(effort * STEP))
    yield most
