"""How a segment is searched by its index: choose, look, look further, compare the rest.

Candidates come from FAISS, the dead and the not allowed are dropped, the rest is scored exactly. Where
dropping leaves too few, the search reaches further, or scores each row where that is cheaper.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from index.contracts import NO_ROW, Ids, RowRankings
from index.engines import file_search, scoring
from index.engines.exact_engine import RowView
from index.engines.faiss_index import FaissIndex, Selection
from index.engines.search_setting import SearchSetting
from index.engines.segments import Segment
from multifold.compiling import compile_annotated
from multifold.types import Metric, Vectors

SCAN = 16  # a candidate costs as much as scoring so many rows
NO_CELL = -1
READ = 8  # and so many where vectors have to be read from a file
CODE = 0.7  # rows are scored in the time of a code that counts,
PASSED = 0.05  # and these while one that does not is passed over
SELECTION = 1_400  # rows are scored in the time that a search of selected codes takes at least
BATCH, BATCH_COST = 8, 1 / 4  # where so many queries score all rows, each takes so much less time for a row
WIDER = 4  # how much further a search that found too few reaches


def search_segment(
    part: Segment,
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
    search = choose(part, metric, queries, limit, allowed, how, count_unlike)
    if search is None:
        return file_search.nearest_rows(metric, part.rows, queries, limit, allowed)
    found = search.look()
    cells, unlike = search.left(found)
    if unlike is not None and unlike.any():
        count_unlike(int(unlike.sum()))
        search.compare(found, cells, unlike)
    if cells is not None and (dear := search.dear(cells)).any():
        search.compare(found, cells, dear)
    if cells is not None and (cells[:, 0] != NO_CELL).any():
        search.look_further(found, cells)
    return found.scores[:, :limit], found.ids[:, :limit]


def choose(
    part: Segment,
    metric: Metric,
    queries: Vectors,
    limit: int,
    allowed: Ids | None,
    how: SearchSetting | None,
    count_unlike: Callable[[int], object],
) -> "SegmentSearch | None":
    """How to search; None: to score each row is cheaper."""
    assert part.ann is not None
    chosen = _count(part, allowed)
    share = max(chosen / len(part.rows.ids), 1e-9)
    selects = part.ann.cells is not None and share < 1
    how = how or part.ann.setting_among(limit, share, filtered=allowed is not None)
    how = how if limit <= how.limit else replace(how, limit=limit)
    search = SegmentSearch(part, metric, queries, allowed, how, selects, share, count_unlike)
    return None if how.candidates > part.ann.most or search.compares_all else search


def _count(part: Segment, allowed: Ids | None) -> int:
    """How many rows are living (and allowed), at most."""
    rows = part.rows
    if allowed is None:
        return len(rows)
    first, last = allowed.searchsorted(rows.ids[0]), allowed.searchsorted(rows.ids[-1], "right")
    return min(int(last - first), len(rows))


@dataclass(eq=False)
class Found:
    """What each query has found so far, best first."""

    scores: Float32[np.ndarray, "q k"]
    places: Int64[np.ndarray, "q k"]  # in the segment
    ids: Int64[np.ndarray, "q k"]
    last: Float32[np.ndarray, " q"]  # the squared distance of the last row


@dataclass(frozen=True, eq=False)
class SegmentSearch:
    """Queries of a segment, and how hard they look for their best rows."""

    part: Segment
    metric: Metric
    queries: Vectors
    allowed: Ids | None
    how: SearchSetting  # its limit is what is looked for
    selects: bool  # whether FAISS is told which rows count; else candidates are dropped
    share: float  # of the rows, that count
    count_unlike: Callable[[int], object]

    @property
    def ann(self) -> FaissIndex:
        assert self.part.ann is not None
        return self.part.ann

    @cached_property
    def selected(self) -> Selection | None:
        """The rows that FAISS is to find; None: any."""
        return self.part.selection(self.allowed) if self.selects else None

    @property
    def codes_alone(self) -> bool:
        """Whether codes stand for rows that are in a file."""
        return self.part.rows.file is not None and self.ann.cells is not None

    @property
    def cost(self) -> float:
        """What a query takes at least, in rows that are scored in the same time."""
        if self.part.rows.file is not None:
            return float(self.how.candidates * READ)
        if self.ann.cells is None:
            return float(max(self.how.candidates, self.how.effort) * SCAN)
        if not self.selects:
            return float(self.how.candidates * SCAN)
        cells = max(float(self.how.effort), self.how.visited)
        return float(self.how.candidates + self.ann.efforts[1] + self.cells_cost(cells) + SELECTION)

    @property
    def rows_cost(self) -> float:
        """The same of scoring each row that counts, for one query alone."""
        return self.share * len(self.part.rows.ids)

    @property
    def compares_all(self) -> bool:
        """Whether all queries score each row that counts in less time."""
        together = len(self.queries) >= BATCH and self.part.rows.file is None
        return self.cost >= self.rows_cost * (BATCH_COST if together else 1)

    def cells_cost(self, cells: Int64[np.ndarray, " q"] | float) -> Float64[np.ndarray, " q"] | float:
        """The same of the codes in so many cells."""
        rows = np.minimum(1, cells / self.ann.efforts[1]) * len(self.part.rows.ids)
        return rows * (PASSED + CODE * self.share)

    def look(self) -> Found:
        """Look into the first cells, and once more where too few of the candidates count."""
        how = self.how
        positions = self.ann.candidates(self.queries, how.candidates, how.effort, self.selected)
        good = self._good(positions)
        scores, places = rescore(self.metric, self.part.rows, self.queries, positions, good, how.limit)
        last = self.ann.distances(self.queries, scores[:, -1])
        found = Found(scores, places, self.part.ids_at(places), last)
        if good is not None and (short := good.sum(axis=1) < how.needed).any():
            found.scores[short], found.ids[short] = search_segment(
                self.part,
                self.metric,
                self.queries[short],
                how.limit,
                self.allowed,
                how.wider(WIDER),
                self.count_unlike,
            )
            found.last[short] = -np.inf  # nothing is left to look for
        return found

    def left(self, found: Found) -> tuple[Int64[np.ndarray, "q e"] | None, Bool[np.ndarray, " q"] | None]:
        """The other cells that may hold a nearer row (None: none), and who is unlike all measured."""
        far = self.how.far
        if far is not None and self.codes_alone:
            found.last[found.last > far] = np.inf  # so all cells are searched
        cells = self.ann.cells_within_reach(self.queries, found.last, self.how)
        if far is None:
            return cells, None
        unlike: Bool[np.ndarray, " q"] = found.last > far
        if cells is not None and cells.shape[1] * 2 > self.ann.efforts[1]:  # near to most cells
            unlike |= (cells != NO_CELL).sum(axis=1) * 2 > self.ann.efforts[1]
        return cells, unlike

    def dear(self, cells: Int64[np.ndarray, "q e"]) -> Bool[np.ndarray, " q"]:
        """Which queries compare every row that counts in less time than codes in these cells."""
        if not self.selects or self.codes_alone:
            return np.zeros(len(cells), np.bool_)
        return np.asarray(self.cells_cost((cells != NO_CELL).sum(axis=1)) > self.rows_cost)

    def compare(
        self, found: Found, cells: Int64[np.ndarray, "q e"] | None, some: Bool[np.ndarray, " q"]
    ) -> None:
        """Compare some queries with every row, and let them look no further."""
        if self.codes_alone:
            return
        found.scores[some], found.ids[some] = file_search.nearest_rows(
            self.metric, self.part.rows, self.queries[some], self.how.limit, self.allowed
        )
        if cells is not None:
            cells[some] = NO_CELL

    def look_further(self, found: Found, cells: Int64[np.ndarray, "q e"]) -> None:
        """Look into these cells too. Strange queries begin again there, with more candidates."""
        count = self.how.candidates
        ordinary, strange = self.how.ordinary, self.how.strange
        if ordinary is not None and strange is not None and strange.further > 1:
            begin_again = found.last > ordinary.near
            if begin_again.any():
                count *= strange.further
                found.places[begin_again] = NO_ROW  # for their first cells are among these
        some = slice(None) if len(cells) == 1 else cells[:, 0] != NO_CELL  # a slice takes less time
        more = self.ann.candidates_in(self.queries, cells, count, self.selected)[some]
        positions = np.concatenate([found.places[some], more], axis=1)
        good = self._good(positions)
        queries = self.queries[some]
        scores, places = rescore(self.metric, self.part.rows, queries, positions, good, self.how.limit)
        found.scores[some] = scores
        found.ids[some] = self.part.ids_at(places)

    def _good(self, positions: Int64[np.ndarray, "q c"]) -> Bool[np.ndarray, "q c"] | None:
        """Which candidates are there, alive and allowed; None: all are."""
        rows = self.part.rows
        good = positions >= 0
        if rows.alive is not None:
            good &= rows.alive[positions]
        if self.allowed is not None and not self.selects:
            ids = rows.ids[positions]
            places = np.minimum(np.searchsorted(self.allowed, ids), len(self.allowed) - 1)
            good &= self.allowed[places] == ids
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
