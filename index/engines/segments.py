"""Segments of an engine: their rows, index and report, how they are searched, and which are merged when.

Candidates come from FAISS, the dead and the not allowed are dropped, the rest is scored exactly. Where
dropping leaves too few, the search reaches further, or scores each row where that is cheaper.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int32, Int64

from index.contracts import NO_ROW, Ids, RowRankings
from index.engines import file_search, scoring
from index.engines.exact_engine import RowView
from index.engines.faiss_index import FaissIndex, IndexStart, SearchSetting, Selection
from multifold.types import Metric, Vectors

UNBUILT = 0.0  # the target of rows that wait for their index


@dataclass(frozen=True)
class RejectedType:
    """A type that was tried and missed the target."""

    type: str
    recall: float


@dataclass(frozen=True, eq=False)
class SegmentReport:
    """A sealed segment in figures."""

    type: str
    rows: int
    target: float
    probes: int
    probed_with: str  # queries | rows
    settings: tuple[SearchSetting, ...]  # none: every row is scored
    bytes_per_row: float  # in memory: of the index, the id and, unless it is in a file, the vector
    build_seconds: float
    missed: tuple[RejectedType, ...] = ()
    file_bytes_per_row: float = 0.0  # of a vector that is in a file; 0: vectors are in memory

    @property
    def waits(self) -> bool:
        """Whether the rows were filled in, and their index is still to be built."""
        return self.target == UNBUILT

    @property
    def recall(self) -> float:
        """Recall of the first ten."""
        return self.settings[0].recall if self.settings else 1.0

    def __str__(self) -> str:
        """One sentence for people."""
        text = f"{self.rows} rows as {self.type}, {self.bytes_per_row:.0f} bytes a row"
        if self.file_bytes_per_row:
            text += f" in memory and {self.file_bytes_per_row:.0f} in a file"
        for setting in self.settings:
            hardest = f" for {setting.hardest}" if setting.hardest else ""
            text += (
                f"; recall@{setting.limit} {setting.recall:.3f}{hardest} in {setting.seconds * 1e3:.2f} ms"
            )
        if not self.settings:
            text += "; exact"
        for trial in self.missed:
            text += f"; {trial.type} reached only {trial.recall:.3f} of {self.target}"
        return text

    def as_json(self) -> dict[str, Any]:
        """For files and the service."""
        return asdict(self)


def report_from_json(raw: dict[str, Any]) -> SegmentReport:
    """The report that `as_json` wrote."""
    settings = tuple(SearchSetting(**setting) for setting in raw["settings"])
    missed = tuple(RejectedType(**trial) for trial in raw["missed"])
    return SegmentReport(**{**raw, "settings": settings, "missed": missed})


SCAN = 16  # a candidate costs as much as scoring so many rows
READ = 8  # and so many where vectors have to be read from a file
SCAN_SHARE = 4  # where one cell in so many is searched, all rows are scored instead
SELECTED = 1 / 4  # of the rows: where no more are allowed, the codes of these alone are scored,
CODE, PASSED = 3, 1 / 32  # each in the time of so many rows, and another is passed over in that of so many
BEGIN = 1 << 20  # numbers that are scored in the time that a search of selected codes takes at least
REMEMBERED = 8  # lists of allowed rows
WIDER = 4  # how much further a search that found too few reaches


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows and, where it pays, their index; sealed once a report says what it is."""

    rows: RowView
    ann: FaissIndex | None = None
    report: SegmentReport | None = None

    @property
    def seal(self) -> SegmentReport:
        """The report of a part that has one."""
        assert self.report is not None
        return self.report

    def search(
        self,
        metric: Metric,
        queries: Vectors,
        limit: int,
        allowed: Ids | None = None,
        how: SearchSetting | None = None,
    ) -> RowRankings:
        """The best rows of each query by the index, best first, padded; `allowed` ids rise."""
        assert self.ann is not None
        chosen = self._count(allowed)
        share = max(chosen / len(self.rows.ids), 1e-9)
        select = share <= SELECTED and self.ann.cells is not None
        how = how or self.ann.setting_among(limit, share, selected=select)
        if self._cost(how, share, selected=select) >= chosen or how.candidates > self.ann.most:
            return file_search.nearest_rows(metric, self.rows, queries, limit, allowed)
        selected = self._selection(allowed) if select else None
        positions = self.ann.candidates(queries, how.candidates, how.effort, selected)
        good = self._good(positions, None if select else allowed)
        scores, ids = rescore(metric, self.rows, queries, positions, good, limit)
        short = None if good is None else good.sum(axis=1) < how.needed
        if short is not None and short.any():
            scores[short], ids[short] = self.search(metric, queries[short], limit, allowed, how.wider(WIDER))
        if how.doubt is not None:
            sureness = self.ann.sureness(queries, scores[:, -1], how.effort)
            if min(sureness, default=how.doubt + 1) <= how.doubt:
                unsure = np.array(sureness) <= how.doubt
                unsure &= True if short is None else ~short
                some, last = queries[unsure], scores[unsure, -1]
                scores[unsure], ids[unsure] = self._search_further(metric, some, last, limit, allowed, how)
        return scores, ids

    def _search_further(
        self,
        metric: Metric,
        queries: Vectors,
        last: Float32[np.ndarray, " q"],
        limit: int,
        allowed: Ids | None,
        how: SearchSetting,
    ) -> RowRankings:
        """Search all cells that could well hold a row that scores more than the last one that was found.

        Each query has its own. Where these are many, all rows are scored; of rows in a file the codes alone,
        which are in memory.
        """
        assert self.ann is not None
        scores, ids = np.empty((len(queries), limit), np.float32), np.empty((len(queries), limit), np.int64)
        efforts, every = self.ann.efforts_within(queries, last, how.cosine), np.ones(len(queries), np.bool_)
        if efforts is not None:
            every = (efforts * SCAN_SHARE > self.ann.efforts()[1]) & (self.rows.file is None)
            wide = replace(how, candidates=how.candidates * how.further, doubt=None)
            for place in np.flatnonzero(~every).tolist():
                one, effort = slice(place, place + 1), max(int(efforts[place]), how.effort)
                its = replace(wide, effort=effort)
                scores[one], ids[one] = self.search(metric, queries[one], limit, allowed, its)
        if every.any():
            scored = file_search.nearest_rows(metric, self.rows, queries[every], limit, allowed)
            scores[every], ids[every] = scored
        return scores, ids

    def _count(self, allowed: Ids | None) -> int:
        """How many rows are living (and allowed), at most."""
        if allowed is None:
            return len(self.rows)
        first, last = allowed.searchsorted(self.rows.ids[0]), allowed.searchsorted(self.rows.ids[-1], "right")
        return min(int(last - first), len(self.rows))

    def _cost(self, how: SearchSetting, share: float, *, selected: bool) -> float:
        """What a search of the index takes, in rows that are scored in the same time."""
        assert self.ann is not None
        if self.rows.file is not None:
            return float(how.candidates * READ)
        if not selected or self.ann.cells is None:
            return float(how.candidates * SCAN)
        centres = self.ann.cells.count
        visited = min(1, how.effort / centres) * len(self.rows.ids)
        scored = how.candidates + centres + visited * (PASSED + CODE * share)
        return float(scored + BEGIN / self.rows.vectors.shape[1])

    def _selection(self, allowed: Ids | None) -> Selection:
        """The living (and allowed) rows; remembered where nobody can write to what is allowed."""
        for known, selection in [*self._selections]:
            if known is allowed:
                return selection
        chosen = np.zeros(len(self.rows.ids), np.bool_)
        chosen[self.rows.positions(allowed)] = True
        selection = np.packbits(chosen, bitorder="little")
        if allowed is not None and not allowed.flags.writeable:
            self._selections.append((allowed, selection))
        return selection

    @cached_property
    def _selections(self) -> deque[tuple[Ids, Selection]]:
        return deque(maxlen=REMEMBERED)

    def _good(
        self, positions: Int64[np.ndarray, "q c"], allowed: Ids | None
    ) -> Bool[np.ndarray, "q c"] | None:
        """Which candidates are there, alive and allowed; None: all are."""
        good = positions >= 0
        if self.rows.alive is not None:
            good &= self.rows.alive[positions]
        if allowed is not None:
            ids = self.rows.ids[positions]
            places = np.minimum(np.searchsorted(allowed, ids), len(allowed) - 1)
            good &= allowed[places] == ids
        return None if np.count_nonzero(good) == good.size else good


def search_once(
    ann: FaissIndex, metric: Metric, rows: RowView, queries: Vectors, setting: SearchSetting
) -> RowRankings:
    """One search of rows that are all alive, as this setting says."""
    positions = ann.candidates(queries, setting.candidates, setting.effort)
    return rescore(metric, rows, queries, positions, positions >= 0, setting.limit)


def rescore(
    metric: Metric,
    rows: RowView,
    queries: Vectors,
    positions: Int64[np.ndarray, "q c"],
    good: Bool[np.ndarray, "q c"] | None,
    limit: int,
) -> RowRankings:
    """The best of the good candidates (None: all) by their exact scores; ties go to the smaller id."""
    if rows.file is None:
        scores = scoring.exact_scores_at(metric, queries, rows.vectors, positions)
    else:
        wanted = positions if good is None else np.where(good, positions, NO_ROW)
        scores = file_search.scores_at(metric, rows, queries, wanted)
    if good is not None:
        scores[~good] = -np.inf
    scores, places = best_scores(scores, positions, limit)
    ids = rows.ids[places]
    if good is not None:
        ids[np.isneginf(scores)] = NO_ROW
    return _padded(scores, -np.inf, limit), _padded(ids, NO_ROW, limit)


def _padded(array: np.ndarray, filler: float | int, limit: int) -> np.ndarray:
    missing = limit - array.shape[1]
    return np.pad(array, ((0, 0), (0, missing)), constant_values=filler) if missing > 0 else array


def best_scores(
    scores: Float32[np.ndarray, "q c"], places: Int64[np.ndarray, "q c"], limit: int
) -> tuple[Float32[np.ndarray, "q k"], Int32[np.ndarray, "q k"]]:
    """The best scores of each row and their places (below 2³¹), best first; ties go to the smaller place."""
    keys = np.empty(places.shape, np.int64)  # which are sorted many times faster than pairs
    low, high = _halves(keys)
    low[:], high[:] = places, _rising((0 - scores).view(np.int32))
    keys.sort(axis=1)
    low, high = _halves(keys[:, :limit])
    return 0 - _rising(high).view(np.float32), low


def _halves(keys: Int64[np.ndarray, "q c"]) -> tuple[Int32[np.ndarray, "q c"], Int32[np.ndarray, "q c"]]:
    halves = keys.view("<i4")
    return halves[:, ::2], halves[:, 1::2]


def _rising(bits: Int32[np.ndarray, "q c"]) -> Int32[np.ndarray, "q c"]:
    """The bits of floats as integers of the same order, and back."""
    return np.asarray(bits ^ ((bits >> 31) & 0x7FFF_FFFF))


TIER = 4  # a sealed part joins a merge that has a quarter of its rows
DEAD_SHARE = 4  # and so does one of whose rows a quarter is dead


def segments_to_merge(parts: Sequence[Segment], seal_at: int) -> list[Segment]:
    """The parts to merge now: loose rows if they are enough, and beside them small or rotten sealed parts.

    A part that was filled and has no index yet comes first, by itself: so its file need not be copied.
    """
    if waiting := [part for part in parts if part.report and part.report.waits]:
        return waiting[:1]
    loose = [part for part in parts if part.report is None]
    size = sum(len(part.rows) for part in loose)
    rotten = [part for part in parts if part.report and part.rows.dead * DEAD_SHARE > len(part.rows.ids)]
    enough = size >= seal_at or rotten
    return with_similar(loose + rotten, parts, TIER) if enough else []


FIRST_INDEX_TIER = 8  # a first index is cheap to make again


def segments_to_hasten(parts: Sequence[Segment]) -> list[Segment]:
    """The parts to give a first index together: loose rows that have none, and small loose parts."""
    loose = [part for part in parts if part.report is None]
    return with_similar([part for part in loose if part.ann is None], loose, FIRST_INDEX_TIER)


def with_similar(chosen: list[Segment], parts: Sequence[Segment], tier: int) -> list[Segment]:
    """And those of the parts that are not many times as large as what is chosen, the smallest first."""
    size = sum(len(part.rows) for part in chosen)
    for part in sorted(parts, key=lambda part: len(part.rows)):
        if part not in chosen and len(part.rows) <= tier * size:
            chosen.append(part)
            size += len(part.rows)
    return chosen


def index_start(parts: Sequence[Segment], chosen: Sequence[Segment], rows: RowView) -> IndexStart | None:
    """The cells of the largest part, with the first of these rows where a chosen part has them there."""
    others = [part for part in parts if part.ann and part.ann.cells and part not in chosen]
    largest = max(others, key=lambda part: len(part.rows), default=None)
    if largest is None or largest.ann is None or len(largest.rows) < len(rows):
        return None
    for part in sorted(chosen, key=lambda part: -len(part.rows)):
        same = part.ann is not None and part.ann.cells is largest.ann.cells
        if part.ann and same and np.array_equal(rows.ids[: len(part.rows.ids)], part.rows.ids):
            return IndexStart(part.ann, len(part.rows.ids))
    return IndexStart(largest.ann, 0)


def replace_segments(now: Sequence[Segment], chosen: Sequence[Segment], new: Segment) -> list[Segment]:
    """The parts after a merge; what was removed from the old parts meanwhile is dead in the new one."""
    sources = {id(part.rows.ids) for part in chosen}  # a part keeps its ids when rows of it die
    old = [part for part in now if id(part.rows.ids) in sources]
    rows = new.rows
    if sum(len(part.rows) for part in old) < len(rows):
        living: Ids = np.concatenate([np.empty(0, np.int64), *(part.rows.living_ids for part in old)])
        rows = replace(rows, alive=np.isin(rows.ids, living))
    others = [part for part in now if id(part.rows.ids) not in sources]
    return [*others, replace(new, rows=rows)] if len(rows) else others
