"""Rows in memory, and the reference engine that scores each of them.

Fast scores narrow all rows to the few that could be among the best, and those are scored exactly.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, Int64

from index.contracts import (
    NO_ROW,
    NOBODY,
    Ids,
    IndexEngineError,
    PairedIds,
    RowBlock,
    RowRanking,
    RowRankings,
    RowScores,
    RowsOwner,
)
from index.engines import row_file
from index.engines.scoring import Lengths, exact_scores_at, fast_scores, lengths, score_slack
from multifold.rising import ALL, find_rising
from multifold.types import Metric, Vector, Vectors

BLOCK_ROWS = 8192  # rows


@dataclass(frozen=True, eq=False)
class RowView:
    """Ids rise with position, so a tie that goes to the first position goes to the smallest id."""

    ids: Int64[np.ndarray, " g"]
    vectors: Float32[np.ndarray, "g d"]
    lengths: Float32[np.ndarray, " g"]
    alive: Bool[np.ndarray, " g"] | None = None  # None: all of them
    file: row_file.VectorFile | None = None  # that the vectors are in, if they are not in memory

    def __len__(self) -> int:
        return len(self.ids) - self.dead

    @property
    def arrays(self) -> tuple[Ids, Vectors, Lengths]:
        return self.ids, self.vectors, self.lengths

    @cached_property
    def dead(self) -> int:
        """How many rows are removed and still stored here."""
        return 0 if self.alive is None else int(len(self.alive) - np.count_nonzero(self.alive))

    @cached_property
    def longest(self) -> float:
        """The length of the longest vector."""
        return float(self.lengths.max(initial=0.0))

    def positions(self, allowed: Ids | None = None) -> Ids | None:
        """Positions of the living (and allowed) rows, rising; None stands for every row."""
        if allowed is not None:
            return self.find(sort_unique(allowed))
        return None if self.alive is None else np.flatnonzero(self.alive)

    def find(self, ids: Ids) -> Ids:
        """Positions of those rising ids that are there and alive."""
        if len(ids) > len(self.ids):  # the few are looked for among the many
            there = find_rising(self.ids, np.ascontiguousarray(ids), ALL) >= 0
            return np.flatnonzero(there if self.alive is None else there & self.alive)
        places = self.places(ids)
        return places[places >= 0]

    def places(self, ids: Ids) -> Ids:
        """The position of each of some rising ids; -1 for those that are not there, or dead."""
        return find_rising(np.ascontiguousarray(ids), self.ids, ALL if self.alive is None else self.alive)

    def blocks(self, allowed: Ids | None = None) -> Iterator[RowBlock]:
        """The living (and allowed) rows, some at a time."""
        places = self.positions(allowed)
        for start in block_starts(len(self.ids) if places is None else len(places)):
            some = slice(start, start + BLOCK_ROWS) if places is None else places[start : start + BLOCK_ROWS]
            yield self.ids[some], self.take(some)

    def reading(self, places: Int64[np.ndarray, "..."]) -> AbstractContextManager[None]:
        """The block reads the vectors at these places."""
        return nullcontext() if self.file is None else self.file.reading(places)

    def take(self, places: Ids | slice) -> Vectors:
        if self.file is None:
            return self.vectors[places] if isinstance(places, slice) else self.vectors.take(places, axis=0)
        rows = np.arange(*places.indices(len(self.ids))) if isinstance(places, slice) else places
        with self.file.reading(rows):
            return np.array(self.vectors[places])

    def without(self, ids: Ids) -> "RowView":
        """The view after these ids were removed; this one stays as it is."""
        places = self.find(sort_unique(ids))
        if not len(places):
            return self
        alive = np.ones(len(self.ids), np.bool_) if self.alive is None else self.alive.copy()
        alive[places] = False
        return replace(self, alive=alive)

    def sample(self, count: int) -> Vectors:
        """Up to so many of the living vectors, spread evenly."""
        return self.take(self.sample_places(count))

    def sample_places(self, count: int) -> Ids:
        """Where they are."""
        places = np.arange(len(self.ids)) if self.alive is None else np.flatnonzero(self.alive)
        taken = min(count, len(places))
        return places[np.arange(taken) * len(places) // max(1, taken)]

    @property
    def living_ids(self) -> Ids:
        return self.ids if self.alive is None else self.ids[self.alive]

    def living(self) -> tuple[Ids, Vectors]:
        return self.living_ids, self.take(slice(None) if self.alive is None else self.alive.nonzero()[0])


def view_of(ids: PairedIds, vectors: Vectors) -> RowView:
    """Rows put in the order of their ids."""
    if not (ids[1:] > ids[:-1]).all():
        order = np.argsort(ids, kind="stable")
        ids, vectors = ids[order], vectors[order]
    return RowView(ids, vectors, lengths(vectors))


def block_starts(count: int) -> range:
    """Where the blocks of so many rows begin."""
    return range(0, count, BLOCK_ROWS)


class JoinedOrder:
    """The living rows of several views, in the order of their ids, without their vectors."""

    def __init__(self, views: Sequence[RowView]) -> None:
        self._views = views
        places = [view.positions() for view in views]
        alive = [np.arange(len(v.ids)) if p is None else p for v, p in zip(views, places, strict=True)]
        ids = np.concatenate([view.ids[some] for view, some in zip(views, alive, strict=True)])
        self._order = np.argsort(ids, kind="stable")
        self._ids, self._places = ids[self._order], np.concatenate(alive)
        self._owners = np.repeat(np.arange(len(views)), [len(some) for some in alive])

    def blocks(self) -> Iterator[Vectors]:
        for start in block_starts(len(self._order)):
            some = self._order[start : start + BLOCK_ROWS]
            block = np.empty((len(some), self._views[0].vectors.shape[1]), np.float32)
            for owner, view in enumerate(self._views):
                own = self._owners[some] == owner
                block[own] = view.take(self._places[some[own]])
            yield block

    def view(self, vectors: Vectors, file: row_file.VectorFile | None = None) -> RowView:
        """The rows, whose vectors are these; in a file, if there is one."""
        sizes = np.empty(len(self._ids), np.float32)
        for owner, view in enumerate(self._views):
            own = self._owners == owner
            sizes[own] = view.lengths[self._places[own]]
        return RowView(self._ids, vectors, sizes[self._order], file=file)


def join_rows(views: Sequence[RowView], *, copy: bool = True) -> RowView:
    """The living rows of these views together; a single view of living ones may stay, if not to `copy`."""
    if not copy and len(views) == 1 and not views[0].dead:
        return views[0]
    order = JoinedOrder(views)
    vectors = np.empty((sum(map(len, views)), views[0].vectors.shape[1]), np.float32)
    start = 0
    for block in order.blocks():
        vectors[start : start + len(block)] = block
        start += len(block)
    return order.view(vectors)


def sort_unique(ids: Ids) -> Ids:
    """Sorted, each once (np.unique hashes, which takes many times as long here)."""
    if (ids[1:] > ids[:-1]).all():
        return ids
    ids = np.sort(ids)
    fresh = np.ones(len(ids), np.bool_)
    np.not_equal(ids[1:], ids[:-1], out=fresh[1:])
    return ids[fresh]


MAX_SCORES = 1 << 24  # scores held at once: 64 MB
GATHER = 4  # candidates are gathered first when they are fewer than one row in so many
EXACT_ROWS = 1024  # rows that are all scored exactly, as choosing among them takes longer
STRIDE = 128  # scores that are represented by their best in a first pass


def nearest_rows(
    metric: Metric, view: RowView, queries: Vectors, limit: int, allowed: Ids | None = None
) -> RowRankings:
    """The best rows of each query, best first, padded with -inf and NO_ROW; ties go to the smaller id."""
    positions = view.positions(allowed)
    scores = np.full((len(queries), limit), -np.inf, np.float32)
    ids = np.full((len(queries), limit), NO_ROW, np.int64)
    for row, candidates in enumerate(_candidates(metric, view, queries, limit, positions)):
        exact, names = _rank(metric, view, queries[row], candidates, positions)
        count = min(limit, len(names))
        scores[row, :count], ids[row, :count] = exact[:count], names[:count]
    return scores, ids


def _candidates(
    metric: Metric, view: RowView, queries: Vectors, limit: int, positions: Ids | None
) -> Iterator[Ids]:
    """For each query the places of rows that may be among the best."""
    count = len(view.ids) if positions is None else len(positions)
    if count <= max(limit, EXACT_ROWS):
        yield from [np.arange(count)] * len(queries)
        return
    step = max(1, MAX_SCORES // max(1, len(view.ids)))
    for start in range(0, len(queries), step):
        block = queries[start : start + step]
        for row, fast in enumerate(_fast(metric, view, block, positions), start):
            yield _may_be_best(fast, limit, 2 * score_slack(metric, queries[row], view.longest))


def write_scores(metric: Metric, view: RowView, query: Vector, ids: Ids, scores: RowScores) -> None:
    """Write the scores of those of some rising ids that are in a view."""
    places = view.places(ids)
    there = np.flatnonzero(places >= 0)
    if len(there):
        places = places[there]
        with view.reading(places):
            scores[there] = exact_scores_at(metric, query[None], view.vectors, places[None])[0]


def score_blocks(
    blocks: Iterable[RowBlock], ids: Ids, compare: Callable[[Vectors], Float32[np.ndarray, " b"]]
) -> RowScores:
    """What a comparison says of the rows in some blocks, for each of some rising ids; NaN for others."""
    scores = np.full(len(ids), np.nan, np.float32)
    for found, vectors in blocks:
        scores[np.searchsorted(ids, found)] = compare(vectors)
    return scores


def _fast(
    metric: Metric, view: RowView, queries: Vectors, positions: Ids | None
) -> Float32[np.ndarray, "q g"]:
    if positions is not None and len(queries) == 1:  # in less time than a copy takes
        return exact_scores_at(metric, queries, view.vectors, positions[None])
    if positions is not None and len(positions) * GATHER < len(view.ids):
        return fast_scores(metric, queries, view.vectors[positions], view.lengths[positions])
    scores = fast_scores(metric, queries, view.vectors, view.lengths)
    return scores if positions is None else scores[:, positions]


def _may_be_best(fast: Float32[np.ndarray, " g"], limit: int, margin: float) -> Ids:
    """Places of scores that may be among the best `limit` if each is off by half the margin."""
    if limit >= len(fast):
        return np.arange(len(fast))
    whole = len(fast) // STRIDE * STRIDE
    few = fast if whole < 2 * limit * STRIDE else fast[:whole].reshape(-1, STRIDE).max(axis=1)
    candidates = np.flatnonzero(fast >= _kth_best(few, limit) - margin)
    if len(candidates) > 2 * limit:
        close = fast[candidates]
        candidates = candidates[close >= _kth_best(close, limit) - margin]
    return candidates


def _kth_best(scores: Float32[np.ndarray, " s"], limit: int) -> np.float32:
    return np.float32(np.partition(scores, len(scores) - limit)[len(scores) - limit])


def _rank(metric: Metric, view: RowView, query: Vector, candidates: Ids, positions: Ids | None) -> RowRanking:
    where = candidates if positions is None else positions[candidates]
    scores = exact_scores_at(metric, query[None], view.vectors, where[None])[0]
    order = np.argsort(-scores, kind="stable")
    return scores[order], view.ids[where][order]


SMALLEST = 256  # rows a buffer starts with
TOLERATED = 4  # compaction when more than one row in so many is dead


class ExactEngine:
    """The reference engine: exact neighbours by index score; ties go to the smaller id.

    One thread at a time writes; the views that were given out stay as they were.
    """

    view: RowView  # the rows as they are now, which are the first of those that there is room for
    _room: RowView

    def __init__(self, dim: int, metric: Metric, owner: RowsOwner = NOBODY) -> None:
        self._dim = dim
        self._metric = metric
        self._owner = owner
        self.close()

    def add(self, ids: PairedIds, vectors: Vectors) -> None:
        """Add rows; an id that is already there is an error, and nothing is added.

        Rising ids are appended; any other order sorts the whole buffer once.
        """
        if vectors.shape != (len(ids), self._dim):
            raise IndexEngineError(f"{len(ids)} ids need as many vectors of {self._dim}, not {vectors.shape}")
        new = view_of(ids, vectors)
        refuse_known(new.ids, self.view)
        if len(ids) and len(self.view.ids) and new.ids[0] <= self.view.ids[-1]:
            self.view = self._room = join_rows([self.view, new])
        else:
            self._extend(new)

    def remove(self, ids: Ids) -> None:
        """Mark rows as dead, and compact when too many are; ids that are not there are ignored."""
        self.view = self.view.without(ids)
        if self.view.dead * TOLERATED > len(self.view.ids):
            self.view = self._room = join_rows([self.view])

    def count(self) -> int:
        return len(self.view)

    def search(
        self,
        queries: Vectors,
        limit: int,
        allowed: Ids | None = None,
        *,
        exact: bool = False,  # noqa: ARG002 (it always is)
    ) -> RowRankings:
        """The best rows of each query, best first, padded with -inf and NO_ROW."""
        return nearest_rows(self._metric, self.view, queries, limit, allowed)

    def score(self, query: Vector, ids: Ids) -> RowScores:
        """The score of each of these ids, which rise; NaN where there is no such row."""
        scores = np.full(len(ids), np.nan, np.float32)
        write_scores(self._metric, self.view, query, ids, scores)
        return scores

    def blocks(self, allowed: Ids | None = None) -> Iterator[RowBlock]:
        return self.view.blocks(allowed)

    def sample(self, count: int) -> Vectors:
        """Up to so many of the vectors, spread evenly."""
        return self.view.sample(count)

    def save(self, path: Path) -> None:
        """Write the living rows to a file, durably and all at once."""
        row_file.write_rows(path, self._owner, self._metric, *self.view.living())

    def load(self, path: Path) -> None:
        """Replace the rows by those of a file; a damaged or foreign one is an error and changes nothing."""
        loaded = ExactEngine(self._dim, self._metric, self._owner)
        loaded.add(*row_file.read_rows(path, self._owner, self._metric, self._dim)[1])
        vars(self).update(vars(loaded))

    def close(self) -> None:
        self.view = self._room = view_of(np.empty(0, np.int64), np.empty((0, self._dim), np.float32))

    def _extend(self, new: RowView) -> None:
        """Append rows; there is room for half as many again, or is made."""
        used, end, alive = len(self.view.ids), len(self.view.ids) + len(new.ids), self.view.alive
        if end > len(self._room.ids):
            size = max(end, SMALLEST, len(self._room.ids) * 3 // 2)
            room = [np.empty((size, *held.shape[1:]), held.dtype) for held in self.view.arrays]
            for there, held in zip(room, self.view.arrays, strict=True):
                there[:used] = held
            self._room = RowView(room[0], room[1], room[2])
        for there, added in zip(self._room.arrays, new.arrays, strict=True):
            there[used:end] = added
        if alive is not None:
            alive = np.append(alive, np.ones(len(new.ids), np.bool_))
        ids, vectors, sizes = (array[:end] for array in self._room.arrays)
        self.view = RowView(ids, vectors, sizes, alive)


def refuse_known(ids: Ids, *views: RowView) -> None:
    """Rising ids of which two are equal, or that are already in one of the views, are an error."""
    repeated = ids[:-1][ids[1:] == ids[:-1]]
    for view in views:
        repeated = repeated if len(repeated) else view.ids[view.find(ids)]
    if len(repeated):
        raise IndexEngineError(f"row {repeated[0]} is already there: remove it first")
