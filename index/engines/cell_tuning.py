"""Chooses into how many cells each query looks, by where the true rows of probes are.

A search looks into a few cells first. The last row that it finds there tells which other cells may well hold
a nearer one: those whose rows would have to lie towards the query by no more than so many times the radius of
a cell. How many times is the reach. It is known in which cell each true row is, so the recall of every reach
follows without a search.

Queries whose last row is far are strange, and have a reach of their own. Beyond all that was measured every
row is scored. So an ordinary query takes what ordinary ones need.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float32

from index.engines.faiss_index import FaissIndex, SearchSetting, cell_bounds
from index.engines.tuning import ProbeTruth, Shares, standard_error, widths

REACHES = 1.05 ** np.arange(-10, 80)  # in so many dimensions chance brings about one of 1
BEGIN = 1 << 18  # numbers whose codes are scored in the time that one more search takes at least
STEP = 1.25  # between two efforts
NEAR_SHARES = (0.9, 0.99, 1.0)  # of the usual probes that are taken as ordinary
FURTHER = (
    1,
    3,
    9,
)  # times as many candidates for strange queries, of which the least that is enough is taken
EXACT = 4  # times as long as the codes of all cells the rows themselves take


class CellTuner:
    """The first of the kinds of probes is the usual one, for which a search is to be fast."""

    def __init__(self, ann: FaissIndex, truths: Sequence[ProbeTruth], target: float) -> None:
        assert ann.cells is not None
        self._ann, self._truths, self._target = ann, truths, target
        self._limit = truths[0].limit
        self._kinds = np.repeat(np.arange(len(truths)), [len(truth.queries) for truth in truths])
        self._usual = self._kinds == 0
        self._cells = ann.cells.distances(np.concatenate([truth.queries for truth in truths]))
        places = np.concatenate([truth.places for truth in truths])
        self._true = np.take_along_axis(self._cells.squares, ann.cells_of_rows()[places], axis=1)
        self._reaches = (REACHES * ann.reduction.dim**-0.5).tolist()

    def tune(self) -> SearchSetting:
        """The setting; its recall is that of the kind that finds least."""
        setting = self._cheapest()
        tried = []
        for width in widths(self._truths[0].rows):
            setting = replace(setting, candidates=self._candidates(width))
            measured, sure = self._truths[0].measure(self._ann, setting)
            if sure >= self._target:
                tried.append(self._for_strange_ones(measured))
                if tried[-1].recall >= self._target:
                    return tried[-1]
            else:
                tried.append(measured)
        return max(tried, key=lambda one: one.recall)

    def _candidates(self, width: float) -> int:
        return min(self._ann.most, int(np.ceil(width * self._limit)) + 1)

    def _for_strange_ones(self, setting: SearchSetting) -> SearchSetting:
        """The setting with which other kinds reach the target too, if there is one."""
        for wider in [
            *(replace(setting, further=times) for times in FURTHER),
            replace(setting, far=setting.near),
        ]:
            others = self._truths[1:]
            shares = [truth.shares(truth.search(self._ann, wider)) for truth in others]
            recalls = {truth.kind: float(each.mean()) for truth, each in zip(others, shares, strict=True)}
            recalls[self._truths[0].kind] = setting.recall
            hardest = min(recalls, key=recalls.__getitem__)
            if recalls[hardest] >= self._target:
                break
        return replace(wider, recall=recalls[hardest], hardest=hardest)

    def _cheapest(self) -> SearchSetting:
        """The first effort and the reaches by which usual probes take least; with few candidates."""
        most, effort = self._ann.efforts()[1], 1
        every = SearchSetting(self._limit, most, self._candidates(1.0), 0.0, 0.0, visited=float(most))
        best = replace(every, seconds=float(most))
        while effort < best.seconds:
            tried = replace(every, effort=effort)
            last = np.concatenate([truth.distances(self._ann, tried) for truth in self._truths])
            for near in np.quantile(last[self._usual], NEAR_SHARES, method="lower").tolist():
                if (setting := self._with_reaches(replace(tried, near=near), last)).seconds < best.seconds:
                    best = setting
            effort = max(effort + 1, int(effort * STEP))
        return best

    def _with_reaches(self, setting: SearchSetting, last: Float32[np.ndarray, " p"]) -> SearchSetting:
        """The least reaches by which each kind finds enough; `seconds` counts cells instead."""
        edge, near = self._cells.edge(setting.effort), last <= setting.near
        reach, far_reach = (self._least_reach(last, edge, among) for among in (near, ~near))
        if reach is None or not np.isfinite(setting.near):
            return replace(setting, seconds=np.inf)
        far = setting.near if far_reach is None else float(last[np.isfinite(last)].max())
        bounds = np.where(near, self._bounds(last, reach), self._bounds(last, far_reach or 0.0))
        bounds = np.maximum(edge, bounds)[self._usual]
        visited = (self._cells.squares[self._usual] <= bounds[:, None]).sum(axis=1)
        cells = self._cells.squares.shape[1]
        exact = (last > far)[self._usual]
        again = BEGIN * cells / max(1, self._ann.index.ntotal * self._ann.reduction.dim)
        cost = np.where(exact, EXACT * cells, visited + again * (bounds > edge[self._usual]))
        visits = float(visited.mean())
        return replace(
            setting, reach=reach, far_reach=far_reach, far=far, visited=visits, seconds=float(cost.mean())
        )

    def _bounds(self, last: Float32[np.ndarray, " p"], reach: float) -> Float32[np.ndarray, " p"]:
        return cell_bounds(last, reach, self._ann.radius)

    def _least_reach(
        self, last: Float32[np.ndarray, " p"], edge: Float32[np.ndarray, " p"], among: Bool[np.ndarray, " p"]
    ) -> float | None:
        """The least by which each kind reaches the target with those of its probes that are among these."""
        kinds = np.unique(self._kinds[among]).tolist()

        def enough(reach: float) -> bool:
            within = self._true <= np.maximum(edge, self._bounds(last, reach))[:, None]
            shares: Shares = within.mean(axis=1)
            each = (shares[among & (self._kinds == kind)] for kind in kinds)
            return all(one.mean() - standard_error(one) >= self._target for one in each)

        place = bisect_left(self._reaches, True, key=enough)
        return self._reaches[place] if place < len(self._reaches) else None
