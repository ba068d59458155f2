"""From rows to a sealed part: types are tried in order until one finds what was asked for with ease.

Of those that find it with an effort the fastest is taken.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from index.engines import gpu, tuning
from index.engines.ann import Ann, Start, Stopped, construct, extended, use_threads
from index.engines.parts import Part
from index.engines.reduction import reduction
from index.engines.report import Report, Trial
from index.engines.rowview import RowView
from index.engines.tuning import Probes, Truth
from index.plan import FLAT, Plan
from multifold.types import Metric, Vector, Vectors

log = logging.getLogger(__name__)

FEWEST = 10  # rows for each row of a measured answer
HASTY = ("RaBitQfs", "SQ8")  # nothing to learn but a mean: thousands of rows in a moment
HASTY_PROBES = 64


@dataclass(frozen=True)
class Builder:
    """Builds the parts of one engine. `ask` gives real queries, or None while there are none."""

    metric: Metric
    plan: Plan
    ask: Callable[[int], Vectors | None]
    signs: Vector | None
    threads: int

    def build(self, rows: RowView, start: Start | None, stopped: Callable[[], bool]) -> Part:
        """Seal rows that are all alive; below the target the next type is tried, at last none is needed.

        Cells that are known come first.
        """
        begun = time.perf_counter()
        use_threads(self.threads)
        on_gpu = gpu.chosen(self.plan.device)
        types = self.plan.ladder(len(rows.ids), gpu=on_gpu)
        known = self._known(rows) if start or types[0] != FLAT else []
        found, missed = list[Ann](), list[Trial]()
        if start and (ann := self._extended(start, rows, known, stopped)):
            found.append(ann)
        for name in types[:-1]:
            if found and not found[-1].strained:
                break
            most = min(map(Ann.seconds, found), default=np.inf)
            notes = [] if found else missed
            if (ann := self._tried(name, rows, known, notes, stopped, most, on_gpu=on_gpu)) is not None:
                found.append(ann)
        best = min(found, key=Ann.seconds, default=None)
        report = self._report(rows, best, known, missed, time.perf_counter() - begun)
        log.log(logging.WARNING if missed else logging.INFO, "sealed %s", report)
        return Part(rows, best, report)

    def indexes(self, rows: int) -> bool:
        """Whether the plan has so many rows indexed, not looked at one by one."""
        return self.plan.ladder(rows, gpu=gpu.chosen(self.plan.device))[0] != FLAT

    def hasten(self, rows: RowView, start: Start | None, stopped: Callable[[], bool]) -> Part:
        """Rows that wait to be sealed, with an index that is there at once; measured by fewer probes."""
        known = self._known(rows, HASTY_PROBES)
        if start and (ann := self._extended(start, rows, known, stopped)):
            return Part(rows, ann)
        tried = (self._tried(name, rows, known, [], stopped) for name in HASTY)
        return Part(rows, next((ann for ann in tried if ann is not None), None))

    def _known(self, rows: RowView, count: int = tuning.MOST_PROBES) -> list[Truth]:
        queries = self.ask(count)
        probes = tuning.held_out(rows, self.signs, count) if queries is None else Probes(queries)
        limits = [limit for limit in tuning.LIMITS if limit * FEWEST <= len(rows.ids)]
        return tuning.truths(self.metric, rows, probes, limits or tuning.LIMITS[:1])

    def _extended(
        self, start: Start, rows: RowView, known: list[Truth], stopped: Callable[[], bool]
    ) -> Ann | None:
        """An index in known cells, with settings for every limit; None where the target is not reached."""
        ann = extended(start, rows, stopped)
        if ann is None:
            return None
        use_threads(1)
        target = self.plan.recall
        settings = [
            tuning.tune(ann, self.metric, rows, one, target, near=ann.setting(one.limit)) for one in known
        ]
        use_threads(self.threads)
        reached = min(setting.recall for setting in settings) >= target
        return replace(ann, settings=tuple(settings)) if reached else None

    def _tried(
        self,
        name: str,
        rows: RowView,
        known: list[Truth],
        missed: list[Trial],
        stopped: Callable[[], bool],
        most: float = np.inf,
        *,
        on_gpu: bool = False,
    ) -> Ann | None:
        """An index that reaches the target with settings for every limit; None notes what it missed by.

        One that takes longer than `most` seconds a query is of no use, and need not reach it.
        """
        reduced = reduction(self.metric, rows.vectors.shape[1], rows.lengths)
        ann = construct(name, rows, reduced, on_gpu=on_gpu, stopped=stopped)
        use_threads(1)
        settings = []
        for one in known:
            if stopped():
                raise Stopped
            settings.append(tuning.tune(ann, self.metric, rows, one, self.plan.recall, most))
        use_threads(self.threads)
        worst = min(setting.recall for setting in settings)
        if worst < self.plan.recall:
            missed.append(Trial(name, worst))
            return None
        return replace(ann, settings=tuple(settings))

    def _report(
        self, rows: RowView, ann: Ann | None, known: list[Truth], missed: list[Trial], seconds: float
    ) -> Report:
        size, dim = rows.vectors.shape
        return Report(
            FLAT if ann is None else ann.type,
            size,
            self.plan.recall,
            len(known[0].probes.queries) if known else 0,
            known[0].probes.name if known else "nothing",
            () if ann is None else ann.settings,
            4.0 * dim + (0 if ann is None else ann.bytes() / max(1, size)),
            seconds,
            tuple(missed),
        )
