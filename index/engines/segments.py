"""Segments of an engine: their rows, index and report, how they are searched, and which are merged when.

Candidates come from FAISS, the dead and the not allowed are dropped, the rest is scored exactly. Where
dropping leaves too few, the search reaches further, or scores each row where that is cheaper.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Int64

from index.contracts import NO_ROW, Ids, RowRankings
from index.engines import file_search, scoring
from index.engines.exact_engine import RowView
from index.engines.faiss_index import (
    FaissIndex,
    IndexStart,
    SearchSetting,
    Selection,
    settings_from_json,
)
from multifold.compiling import compile_annotated
from multifold.types import Metric, Vectors

UNBUILT = 0.0  # the target of rows that wait for their index


class StepTimes:
    """What the steps of a build take of this thread."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        """The block is this step, or a part of it."""
        begun = time.thread_time()
        yield
        self.seconds[step] = self.seconds.get(step, 0.0) + time.thread_time() - begun


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
    steps: Mapping[str, float] = field(default_factory=dict)  # CPU seconds that each step of the build took

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
        if self.steps:
            text += "; built in " + ", ".join(f"{took:.1f} s of {step}" for step, took in self.steps.items())
        return text

    def as_json(self) -> dict[str, Any]:
        """For files and the service."""
        return asdict(self)


def report_from_json(raw: dict[str, Any]) -> SegmentReport:
    """The report that `as_json` wrote."""
    settings = settings_from_json(raw["settings"])
    missed = tuple(RejectedType(**trial) for trial in raw["missed"])
    return SegmentReport(**{**raw, "settings": settings, "missed": missed})


SCAN = 16  # a candidate costs as much as scoring so many rows
NO_CELL = -1
READ = 8  # and so many where vectors have to be read from a file
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
        count_unlike: Callable[[int], object] = int,
    ) -> RowRankings:
        """The best rows of each query by the index, best first, padded; `allowed` ids rise.

        As many are looked for as were measured: by the last of them it is seen which cells are worth a look.
        A query that is unlike all that was measured is compared with every row, and counted. If these are in
        a file, it is compared with their codes.
        """
        assert self.ann is not None
        chosen = self._count(allowed)
        share = max(chosen / len(self.rows.ids), 1e-9)
        filtered = allowed is not None
        select = self.ann.cells is not None and share < 1 and (share <= SELECTED or not filtered)
        how = how or self.ann.setting_among(limit, share, filtered=filtered, selected=select)
        if self._cost(how, share, selected=select) >= chosen or how.candidates > self.ann.most:
            return file_search.nearest_rows(metric, self.rows, queries, limit, allowed)
        wanted = max(limit, how.limit)
        selected = self.selection(allowed) if select else None
        asked = None if select else allowed
        positions = self.ann.candidates(queries, how.candidates, how.effort, selected)
        good = self._good(positions, asked)
        scores, places = rescore(metric, self.rows, queries, positions, good, wanted)
        ids = self.ids_at(places)
        last = self.ann.distances(queries, scores[:, -1])
        if good is not None and (short := good.sum(axis=1) < how.needed).any():
            again = self.search(metric, queries[short], wanted, allowed, how.wider(WIDER), count_unlike)
            scores[short], ids[short] = again
            last[short] = -np.inf
        codes_alone = self.rows.file is not None and self.ann.cells is not None
        if codes_alone and how.far is not None:
            last[last > how.far] = np.inf  # so all cells are searched
        cells = self.ann.cells_within_reach(queries, last, how)
        if how.far is not None and (unlike := self._unlike(last, cells, how.far)).any():
            count_unlike(int(unlike.sum()))
            if not codes_alone:
                every = file_search.nearest_rows(metric, self.rows, queries[unlike], wanted, allowed)
                scores[unlike], ids[unlike] = every
            if not codes_alone and cells is not None:
                cells[unlike] = NO_CELL
        if cells is not None and (cells[:, 0] != NO_CELL).any():
            some = slice(None) if len(cells) == 1 else cells[:, 0] != NO_CELL  # a slice takes less time
            count = how.candidates
            if how.further > 1 and (strange := last > how.near).any():
                count *= how.further
                places[strange] = NO_ROW  # for their first cells are searched again
            more = self.ann.candidates_in(queries, cells, count, selected)[some]
            positions = np.concatenate([places[some], more], axis=1)
            good = self._good(positions, asked)
            scores[some], places = rescore(metric, self.rows, queries[some], positions, good, wanted)
            ids[some] = self.ids_at(places)
        return scores[:, :limit], ids[:, :limit]

    def _unlike(
        self, last: Float32[np.ndarray, " q"], cells: Int64[np.ndarray, "q e"] | None, far: float
    ) -> Bool[np.ndarray, " q"]:
        """Which queries are unlike all that was measured: those near to nothing, or to most cells."""
        unlike: Bool[np.ndarray, " q"] = last > far
        if cells is not None and self.ann is not None and cells.shape[1] * 2 > self.ann.efforts[1]:
            unlike |= (cells != NO_CELL).sum(axis=1) * 2 > self.ann.efforts[1]
        return unlike

    def ids_at(self, places: Int64[np.ndarray, "q k"]) -> Int64[np.ndarray, "q k"]:
        """The ids of rows at these places, of which -1 is none."""
        ids: Int64[np.ndarray, "q k"] = self.rows.ids[places]
        if (places < 0).any():
            ids[places < 0] = NO_ROW
        return ids

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
        visited = min(1, max(how.effort, how.visited) / centres) * len(self.rows.ids)
        scored = how.candidates + centres + visited * (PASSED + CODE * share)
        return float(scored + BEGIN / self.rows.vectors.shape[1])

    def selection(self, allowed: Ids | None = None) -> Selection | None:
        """The living (and allowed) rows; None: all. Remembered where nobody can write to what is allowed."""
        if allowed is None:
            return self._living
        for known, selection in [*self._selections]:
            if known is allowed:
                return selection
        chosen = np.zeros(len(self.rows.ids), np.bool_)
        chosen[self.rows.positions(allowed)] = True
        selection = np.packbits(chosen, bitorder="little")
        if not allowed.flags.writeable:
            self._selections.append((allowed, selection))
        return selection

    @cached_property
    def _living(self) -> Selection | None:
        if self.rows.alive is None:
            return None
        living: Selection = np.packbits(self.rows.alive, bitorder="little")
        return living

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
    """One search of rows that are all alive, in an index without cells, as this setting says."""
    positions = ann.candidates(queries, setting.candidates, setting.effort)
    scores, places = rescore(metric, rows, queries, positions, positions >= 0, setting.limit)
    return scores, Segment(rows, ann).ids_at(places)


def rescore(
    metric: Metric,
    rows: RowView,
    queries: Vectors,
    positions: Int64[np.ndarray, "q c"],
    good: Bool[np.ndarray, "q c"] | None,
    limit: int,
) -> tuple[Float32[np.ndarray, "q k"], Int64[np.ndarray, "q k"]]:
    """Scores and places of the best of the good candidates (None: all), padded; ties: the smaller place."""
    if good is not None:
        positions = np.where(good, positions, NO_ROW)
    if rows.file is None:
        scores = scoring.exact_scores_at(metric, queries, rows.vectors, positions)
    else:
        scores = file_search.scores_at(metric, rows, queries, positions)
    if good is not None:
        scores[~good] = -np.inf
    scores, places = best_scores(scores, positions, limit)
    return _padded(scores, -np.inf, limit), _padded(places, NO_ROW, limit)


def _padded(array: np.ndarray, filler: float | int, limit: int) -> np.ndarray:
    missing = limit - array.shape[1]
    return np.pad(array, ((0, 0), (0, missing)), constant_values=filler) if missing > 0 else array


def best_scores(
    scores: Float32[np.ndarray, "q c"], places: Int64[np.ndarray, "q c"], limit: int
) -> tuple[Float32[np.ndarray, "q k"], Int64[np.ndarray, "q k"]]:
    """The best scores of each row and their places (below 2³¹), best first; ties go to the smaller place."""
    keys: Int64[np.ndarray, "q c"] = np.empty(scores.shape, np.int64)
    _write_keys(scores, places, keys)
    keys.sort(axis=1)  # many times faster than pairs
    shape = len(keys), min(limit, keys.shape[1])
    best, where = np.empty(shape, np.float32), np.empty(shape, np.int64)
    _read_keys(keys, best, where)
    return best, where


@compile_annotated("keys")
def _write_keys(
    scores: Float32[np.ndarray, "q c"], places: Int64[np.ndarray, "q c"], keys: Int64[np.ndarray, "q c"]
) -> None:
    """Integers that rise as the best come first: the bits of negated scores, and then places."""
    bits = (np.float32(0) - scores).view(np.int32)
    for row in range(len(keys)):
        for at in range(keys.shape[1]):
            rising = bits[row, at] ^ ((bits[row, at] >> 31) & 0x7FFF_FFFF)
            keys[row, at] = (np.int64(rising) << 32) | (places[row, at] & 0xFFFF_FFFF)


@compile_annotated("scores", "places")
def _read_keys(
    keys: Int64[np.ndarray, "q c"], scores: Float32[np.ndarray, "q k"], places: Int64[np.ndarray, "q k"]
) -> None:
    """What the first of the keys were made of."""
    bits = np.empty(scores.shape, np.int32)
    for row in range(len(places)):
        for at in range(places.shape[1]):
            rising = np.int32(keys[row, at] >> 32)
            bits[row, at] = rising ^ ((rising >> 31) & 0x7FFF_FFFF)
            places[row, at] = np.int32(keys[row, at] & 0xFFFF_FFFF)
    scores[:] = np.float32(0) - bits.view(np.float32)


TIER = 4  # a sealed part joins a merge that has a quarter of its rows,
KEPT_TIER = 16  # or so much of its rows, if it keeps its cells: its codes are copied then;
QUIET_TIER = 64  # and so few rows join it when no more come
DEAD_SHARE = 4  # a part of whose rows a quarter is dead is merged
Ladder: TypeAlias = Callable[[int], Sequence[str]]  # types to try for so many rows


def segments_to_merge(
    parts: Sequence[Segment], seal_at: int, types: Ladder, *, quiet: bool = False
) -> list[Segment]:
    """The parts to merge now: loose rows if they are enough, and beside them small or rotten sealed parts.

    A part that was filled and has no index yet comes first, by itself: so its file need not be copied.
    When no more rows come (`quiet`), all others join the largest part, if that keeps its cells.
    """
    if waiting := [part for part in parts if part.report and part.report.waits]:
        return waiting[:1]
    loose = [part for part in parts if part.report is None]
    rotten = [part for part in parts if part.report and part.rows.dead * DEAD_SHARE > len(part.rows.ids)]
    largest = max(parts, key=lambda part: len(part.rows), default=None)
    others = [part for part in parts if part is not largest]
    if sum(len(part.rows) for part in loose) < seal_at and not rotten:
        return list(parts) if quiet and _joins(largest, others, types, QUIET_TIER) else []
    chosen = with_similar(loose + rotten, parts, TIER)
    return [*chosen, largest] if largest and _joins(largest, chosen, types, KEPT_TIER) else chosen


def _joins(part: Segment | None, chosen: Sequence[Segment], types: Ladder, tier: int) -> bool:
    """Whether a part keeps its cells in a merge with these, and is not too large for that."""
    size = sum(len(one.rows) for one in chosen)
    if part is None or part in chosen or len(part.rows) > tier * size:
        return False
    return _keeps_cells(part, size + len(part.rows), types)


def _keeps_cells(part: Segment, rows: int, types: Ladder) -> bool:
    """Whether so many rows, with those of this part, are to have as many cells, learned from half of them."""
    ann = part.ann
    if ann is None or ann.cells is None or ann.type == FIRST_CELLS or ann.type not in types(rows):
        return False
    return 2 * (ann.added + rows - len(part.rows)) <= rows


FIRST_CELLS = "IVF120,SQ8"  # the type of a first index of many rows, whose cells serve no other part
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


def index_start(
    parts: Sequence[Segment],
    chosen: Sequence[Segment],
    rows: RowView,
    *,
    hasty: bool = False,
    types: Ladder = lambda _: (),
) -> IndexStart | None:
    """The cells of the largest part, with those of these rows that a chosen part has there.

    They serve rows that are no more than those of the part, or any rows for now. A part that is merged itself
    gives its cells if the merged rows are to have as many (`types`), learned from half of them.
    """
    known = [part for part in parts if part.ann and part.ann.cells and part.ann.type != FIRST_CELLS]
    others = [part for part in known if part not in chosen]
    largest = max(others, key=lambda part: len(part.rows), default=None)
    if largest is None or (len(largest.rows) < len(rows) and not hasty):
        largest = next((part for part in chosen if _keeps_cells(part, len(rows), types)), None)
    if largest is None or largest.ann is None:
        return None
    for part in sorted(chosen, key=lambda part: -len(part.rows)):
        if part.ann is not None and part.ann.cells is largest.ann.cells:
            places = np.searchsorted(rows.ids, part.rows.ids)
            if part.rows.alive is not None:
                places[~part.rows.alive] = NO_ROW
            return IndexStart(part.ann, places)
    return IndexStart(largest.ann)


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
