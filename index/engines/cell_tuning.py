"""Chooses into how many cells each query looks, by where the true rows of probes are.

A search looks into a few cells first. The last row that it finds there tells which other cells may well hold
a nearer one: those whose rows would have to lie towards the query by no more than so many times the radius of
a cell. How many times is the reach. It is known in which cell each true row is, so the recall of every reach
follows without a search.

Queries whose last row is far are strange, and have a reach of their own. Beyond all that was measured every
row is scored. So an ordinary query takes what ordinary ones need.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float32

from index.engines.cell_distances import cell_bounds
from index.engines.faiss_index import FaissIndex
from index.engines.search_setting import OrdinaryReach, SearchSetting, StrangeReach
from index.engines.tuning import STRANGE_ERRORS, WIDTHS, ProbeTruth, Shares, standard_error, widths

REACHES = 1.05 ** np.arange(-10, 80)  # in so many dimensions chance brings about one of 1
NUMBERS_OF_A_SEARCH = 1 << 18  # whose codes are scored in the time that one more search takes at least
EFFORT_FACTOR = 2  # times the effort before that is tried next
NEAR_SHARES = (0.9, 0.99, 1.0)  # of the usual probes that are taken as ordinary
# Times as many candidates for strange queries, of which the least that is enough is taken.
FURTHER = (1, 3, 9)
HIDING_PROBES = 24  # probes of a kind that are asked to see what codes hide
ROWS_BESIDE_CODES = 4  # times as long as the codes of all cells the rows themselves take


class CellTuner:
    """For each size of an answer there are probes of each kind, of which the first is the usual one.

    For these a search is to be fast.
    """

    def __init__(self, ann: FaissIndex, known: Sequence[Sequence[ProbeTruth]], target: float) -> None:
        assert ann.cells is not None
        self._ann, self._known, self._target = ann, known, target
        kinds = known[0]
        self._kinds = np.repeat(np.arange(len(kinds)), [len(truth.queries) for truth in kinds])
        self._usual = self._kinds == 0
        self._cells = ann.cells.distances(np.concatenate([truth.queries for truth in kinds]))
        self._cells_of_rows = ann.cells_of_rows()
        self._reaches = (REACHES * ann.reduction.dim**-0.5).tolist()
        self._looks = dict[int, Float32[np.ndarray, "p k"]]()

    def tune(self) -> tuple[SearchSetting, ...]:
        """A setting for each size; its recall is that of the kind that finds least."""
        return tuple(map(self._tuned, self._known))

    def _tuned(self, truths: Sequence[ProbeTruth]) -> SearchSetting:
        setting = self._cheapest(truths)
        tried = []
        for width in widths(truths[0].rows):
            candidates = min(self._ann.most, int(np.ceil(width * setting.limit)) + 1)
            measured, sure = truths[0].measure(self._ann, replace(setting, candidates=candidates))
            if sure >= self._target:
                tried.append(self._for_strange_ones(measured, truths))
                if tried[-1].recall >= self._target:
                    return tried[-1]
            else:
                tried.append(measured)
        return max(tried, key=lambda one: one.recall)

    def _for_strange_ones(self, setting: SearchSetting, truths: Sequence[ProbeTruth]) -> SearchSetting:
        """The setting with which other kinds reach the target too, if there is one.

        How many rows codes hide from a kind is seen by a few of its probes.
        """
        ends = np.cumsum([len(truth.queries) for truth in truths])[:-1]
        known = np.split(self._expected(setting, truths), ends)[1:]
        for wider in self._wider(setting):
            recalls = {truths[0].kind: setting.recall}
            for truth, expected in zip(truths[1:], known, strict=True):
                few = truth.few(HIDING_PROBES)
                hidden = expected[:HIDING_PROBES].mean() - few.shares(few.search(self._ann, wider)).mean()
                recalls[truth.kind] = float(expected.mean() - max(0.0, hidden))
            hardest = min(recalls, key=recalls.__getitem__)
            if recalls[hardest] >= self._target:
                break
        return replace(wider, recall=recalls[hardest], hardest=hardest)

    def _wider(self, setting: SearchSetting) -> Iterator[SearchSetting]:
        """Ways in which strange queries find more; at last all rows are scored for them."""
        strange = setting.strange
        if strange is None:
            yield setting
        else:
            yield from (replace(setting, strange=replace(strange, further=times)) for times in FURTHER)
        yield replace(setting, far=0.0 if setting.ordinary is None else setting.ordinary.near)

    def _expected(self, setting: SearchSetting, truths: Sequence[ProbeTruth]) -> Shares:
        """The share of the true rows of each probe that are in the cells which it looks into."""
        last, edge = self._last(setting.effort, setting.limit), self._cells.edge(setting.effort)
        ordinary = setting.ordinary or OrdinaryReach(np.inf, 0.0)
        far = self._bounds(last, 0.0 if setting.strange is None else setting.strange.reach)
        bounds = np.where(last <= ordinary.near, self._bounds(last, ordinary.reach), far)
        bounds[last > (np.inf if setting.far is None else setting.far)] = np.inf
        shares: Shares = (self._true(truths) <= np.maximum(edge, bounds)[:, None]).mean(axis=1)
        return shares

    def _true(self, truths: Sequence[ProbeTruth]) -> Float32[np.ndarray, "p k"]:
        """How far the cells of true rows are."""
        places = np.concatenate([truth.places for truth in truths])
        return np.take_along_axis(self._cells.squares, self._cells_of_rows[places], axis=1)

    def _cheapest(self, truths: Sequence[ProbeTruth]) -> SearchSetting:
        """The first effort and the reaches by which usual probes take least; with few candidates."""
        most = self._ann.efforts[1]
        limit = truths[0].limit
        effort = 1
        true = self._true(truths)
        every = SearchSetting(limit, most, limit + 1, 0.0, 0.0, visited=float(most))
        best = replace(every, seconds=float(most))
        while effort < best.seconds:
            last = self._last(effort, limit)
            for near in np.quantile(last[self._usual], NEAR_SHARES, method="lower").tolist():
                tried = self._with_reaches(replace(every, effort=effort), near, last, true)
                best = min(best, tried, key=lambda one: one.seconds)
            effort *= EFFORT_FACTOR
        return best

    def _last(self, effort: int, limit: int) -> Float32[np.ndarray, " p"]:
        """How far the last row is that each probe finds in so many cells."""
        if effort not in self._looks:
            scores = [truth.first_look(self._ann, effort, WIDTHS[0]) for truth in self._known[-1]]
            self._looks[effort] = np.concatenate(scores)
        last = self._looks[effort][:, limit - 1]
        return self._ann.reduction.distances(self._cells.factors, last)

    def _with_reaches(
        self,
        setting: SearchSetting,
        near: float,
        last: Float32[np.ndarray, " p"],
        true: Float32[np.ndarray, "p k"],
    ) -> SearchSetting:
        """The least reaches by which each kind finds enough; `seconds` counts cells instead."""
        edge, is_near = self._cells.edge(setting.effort), last <= near
        reach = self._least_reach(true, last, edge, is_near, 1)
        far_reach = self._least_reach(true, last, edge, ~is_near, STRANGE_ERRORS)
        if reach is None or not np.isfinite(near):
            return replace(setting, seconds=np.inf)
        far = near if far_reach is None else float(last[np.isfinite(last)].max())
        bounds = np.where(is_near, self._bounds(last, reach), self._bounds(last, far_reach or 0.0))
        bounds = np.maximum(edge, bounds)[self._usual]
        visited = (self._cells.squares[self._usual] <= bounds[:, None]).sum(axis=1)
        cells = self._cells.squares.shape[1]
        exact = (last > far)[self._usual]
        again = NUMBERS_OF_A_SEARCH * cells / max(1, self._ann.index.ntotal * self._ann.reduction.dim)
        cost = np.where(exact, ROWS_BESIDE_CODES * cells, visited + again * (bounds > edge[self._usual]))
        visits = float(visited.mean())
        return replace(
            setting,
            ordinary=OrdinaryReach(near, reach),
            strange=None if far_reach is None else StrangeReach(far_reach),
            far=far,
            visited=visits,
            seconds=float(cost.mean()),
        )

    def _bounds(self, last: Float32[np.ndarray, " p"], reach: float) -> Float32[np.ndarray, " p"]:
        return cell_bounds(last, reach, self._ann.radius)

    def _least_reach(
        self,
        true: Float32[np.ndarray, "p k"],
        last: Float32[np.ndarray, " p"],
        edge: Float32[np.ndarray, " p"],
        among: Bool[np.ndarray, " p"],
        errors: int,
    ) -> float | None:
        """The least by which each kind surely reaches the target, of its probes that are among these."""
        kinds = np.unique(self._kinds[among]).tolist()

        def enough(reach: float) -> bool:
            within = true <= np.maximum(edge, self._bounds(last, reach))[:, None]
            shares: Shares = within.mean(axis=1)
            each = (shares[among & (self._kinds == kind)] for kind in kinds)
            return all(one.mean() - errors * standard_error(one) >= self._target for one in each)

        place = bisect_left(self._reaches, True, key=enough)
        return self._reaches[place] if place < len(self._reaches) else None
