"""The engines of one collection by side and kind of row, kept up to date from the change log of the store.

There is one way into the engines: catching up with the store's change log. A live write, a reader that
follows another process, and the opening of a collection (from before the first change) all take it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float32

from index.contracts import NEVER, NO_ROW, EngineKey, Ids, IndexEngine, IndexPlan, RowKind, RowRanking, Space
from index.engine_set.engine_check import find_engine_problems
from index.engines.faiss_engine import FaissEngine
from index.engines.row_file import ReadCount
from index.engines.saved_engines import SavedEngines
from index.engines.segments import SegmentReport
from index.engines.served_queries import ServedRecall
from index.store.filters import Filter
from index.store.item_rows import (
    OBSERVATIONS_AT_ONCE,
    EngineRows,
    FeatureBatch,
    all_rows,
    derive_usable_rows,
    edition_of,
    pooled_row,
    rows_of,
)
from index.store.metadata import ChangesSince, last_change
from index.store.store import Store
from multifold.errors import needs_extra
from multifold.types import Aspect, Pooling, Vector

with needs_extra("serve"):
    from sqlalchemy import Connection


Values: TypeAlias = Float32[np.ndarray, " n"]
ProgressCallback: TypeAlias = Callable[[int], object]
SAVE_AFTER = 8192  # changes that are derived again after a crash,
SAVE_SHARE = 8  # or a part of the items, where that is more
SAVED_ROWS = 4096  # rows; fewer are derived faster than they are read
WIDER = 4  # how much further a grouped search reaches each time


def ignore_progress(_: int) -> None:
    """Do nothing."""


@runtime_checkable
class EngineQuery(Protocol):
    """A query in terms of one engine's rows."""

    def search(
        self, engine: IndexEngine, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> RowRanking:
        """The best rows with their scores, best first; ties go to the smaller id."""

    def scores(self, engine: IndexEngine, ids: Ids) -> Values:
        """The score of each of these ids, which rise; NaN where there is no such row."""


@dataclass(frozen=True, eq=False)
class VectorQuery:
    """A vector whose scores may be stretched and shifted."""

    vector: Vector
    stretch: float = 1.0
    shift: float = 0.0

    def search(
        self, engine: IndexEngine, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> RowRanking:
        """The best rows with their scores, best first."""
        scores, rows = engine.search(self.vector[None], limit, allowed, exact=exact)
        filled = rows[0] != NO_ROW
        return self._stretched(scores[0][filled]), rows[0][filled]

    def scores(self, engine: IndexEngine, ids: Ids) -> Values:
        """The score of each of these ids, which rise; NaN where there is no such row."""
        return self._stretched(engine.score(self.vector, ids))

    def _stretched(self, scores: Values) -> Values:
        if self.stretch == 1 and self.shift == 0:
            return scores
        stretched: Values = (scores.astype(np.float64) * self.stretch + self.shift).astype(np.float32)
        return stretched


@dataclass(frozen=True, eq=False)
class Candidates:
    """Editions that a search may find, rising, and how many observations each has."""

    editions: Ids
    sizes: Ids
    where: Filter | None = None  # what they passed, if that is all that they are
    _pooled: dict[Aspect, Ids] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.editions)

    def pooled(self, side: Aspect) -> Ids:
        """Their pooled rows of one side."""
        if side not in self._pooled:
            self._pooled[side] = _lasting(pooled_row(self.editions, side))
        return self._pooled[side]

    @cached_property
    def observed(self) -> Ids:
        """The rows of their observations."""
        return _lasting(rows_of(self.editions, self.sizes))


class ReadWriteGate:
    """A readers-writer lock where a waiting writer goes first. Not reentrant."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers = 0
        self._writers = 0  # waiting, or in
        self._occupied = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock together with other readers."""
        with self._condition:
            self._condition.wait_for(lambda: not self._writers)
            self._readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._readers -= 1
                self._condition.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock alone."""
        with self._condition:
            self._writers += 1
            self._condition.wait_for(lambda: not self._readers and not self._occupied)
            self._occupied = True
        try:
            yield
        finally:
            with self._condition:
                self._writers -= 1
                self._occupied = False
                self._condition.notify_all()


class EngineSet:
    """Engines by side and kind of row. Searches share the gate, a change passes it alone."""

    # Seconds by which searches may be behind, where a thread brings the engines up to the store.
    staleness: float | None = None

    def __init__(
        self,
        space: Space,
        store: Store,
        engine: Callable[[EngineKey], IndexEngine],
        plan: IndexPlan,
        saved: SavedEngines | None = None,
        *,
        follows: bool = False,
    ) -> None:
        """`follows`: whether other processes may change the store."""
        self._space, self._store, self._plan, self._follows = space, store, plan, follows
        self._new_engine = engine
        self._saved = saved
        self._last_save = NEVER, 0  # version, and how often anything had been sealed
        self._engines: dict[EngineKey, IndexEngine] = {}
        self.gate = ReadWriteGate()
        self.version = NEVER

    def open(self) -> None:
        """Begin with the engines that were saved, if they fit, and catch up."""
        loaded = None if self._saved is None else self._saved.load(self._store.version(), self._new_engine)
        if loaded is not None:
            with self.gate.writing():
                self.version, self._engines = loaded
            self._last_save = self.version, 0
        self.follow()

    def save(self) -> None:
        """Save the engines if much has changed since they were saved last."""
        changes = self.version - self._last_save[0]
        if self._saved is not None and changes >= max(SAVE_AFTER, self.size() // SAVE_SHARE):
            self.keep()

    def keep(self) -> None:
        """Save the engines as they are, sealed as far as they are, if there are rows to save."""
        now = self.version, sum(engine.seals for engine in self._sealing().values())
        if self._saved is None or self.version == NEVER or now == self._last_save:
            return
        if sum(engine.count() for engine in self._engines.values()) >= SAVED_ROWS:
            self._saved.save(self.version, self._engines)
            self._last_save = now

    def follow(self) -> None:
        """Catch up after a change, and on opening."""
        self.catch_up()

    def look(self) -> None:
        """See what searches can be asked."""
        self.follow()

    def version_at(self, now: Connection) -> int:  # noqa: ARG002 (engines stay while the gate is held)
        """The version that is searched at this moment."""
        return self.version

    def seen_at(self, now: Connection, *, strong: bool) -> int | None:  # noqa: ARG002 (every search is)
        """The version that a search sees now; None if the engines have to catch up."""
        behind = self._follows and self.version != last_change(now)
        return None if behind or self.version == NEVER else self.version

    def lost(self) -> None:
        """Begin again: what was searched is lost."""
        with self.gate.writing():
            self.close()

    def discard(self) -> None:
        """Remove what is kept outside of this process and folder, for good."""

    def feeding(self) -> AbstractContextManager[object]:
        """While it lasts, nobody else brings the engines to a later version of the store."""
        return nullcontext()

    def catch_up(self, on_progress: ProgressCallback = ignore_progress) -> None:
        """Apply what the store has that the engines have not; after a failure the next one starts afresh.

        `on_progress` is called with how many observations are on their way.
        """
        if self.version == self._store.version():
            return
        with self._store.moment() as now:
            if self.version != NEVER and not self._store.reaches(self.version):  # the log was cut short
                with self.gate.writing():
                    self.close()
            progress = ChangesSince(now, self.version, OBSERVATIONS_AT_ONCE)
            batches = _counted(progress.batches(), on_progress)
            additions = (one for batch in batches for one in derive_usable_rows(batch, self._space))
            if self.version == NEVER:
                self._apply(progress.version, [], additions)
            else:
                self._apply(progress.version, progress.ended(), list(additions))

    def ranked(
        self,
        query: EngineQuery,
        side: Aspect,
        limit: int,
        pool: Pooling,
        among: Candidates | None = None,
        *,
        exact: bool = False,
    ) -> tuple[Ids, Values]:
        """Editions with their scores, best first; `limit` of them when so many exist."""
        where = None if among is None else among.where
        if pool == "mean":
            allowed = None if among is None else among.pooled(side)
            scores, rows = self._search((side, "pooled"), query, limit, allowed, where, exact=exact)
            return edition_of(rows), scores
        allowed = None if among is None else among.observed
        reach = limit
        while True:
            reach *= WIDER
            scores, rows = self._search((side, "observation"), query, reach, allowed, where, exact=exact)
            editions, firsts = np.unique(edition_of(rows), return_index=True)
            if len(editions) >= limit or len(rows) < reach:
                order = np.argsort(firsts)[:limit]
                return editions[order], scores[firsts[order]]

    def scores(self, query: EngineQuery, side: Aspect, pool: Pooling, among: Candidates) -> Values:
        """The score of each of these editions on one side; NaN where it has none."""
        scores = np.full(len(among), np.nan, np.float32)
        kind: RowKind = "pooled" if pool == "mean" else "observation"
        engine = self._engines.get((side, kind))
        if engine is None or not engine.count():
            return scores
        if pool == "mean":
            return query.scores(engine, among.pooled(side))
        values = query.scores(engine, among.observed)
        np.fmax.at(scores, np.searchsorted(among.editions, edition_of(among.observed)), values)
        return scores

    def ranked_rows(self, query: EngineQuery, side: Aspect, sizes: Mapping[int, int]) -> dict[int, list[int]]:
        """The rows of one side of rising editions, best first, given how many observations each has."""
        engine = self._engines.get((side, "observation"))
        if engine is None or not engine.count():
            return {}
        rows = rows_of(np.array([*sizes]), np.array([*sizes.values()]))
        scores = query.scores(engine, rows)
        ranked = np.argsort(-scores, kind="stable")[: np.count_nonzero(~np.isnan(scores))]
        by_edition: dict[int, list[int]] = {}
        for edition, row in zip(edition_of(rows[ranked]).tolist(), rows[ranked].tolist(), strict=True):
            by_edition.setdefault(edition, []).append(row)
        return by_edition

    def choice(self, side: Aspect, among: Candidates | None = None) -> int:
        """How many items a search of this side chooses from, at most."""
        engine = self._engines.get((side, "pooled"))
        whole = 0 if engine is None else engine.count()
        return whole if among is None else min(whole, len(among))

    @property
    def engines(self) -> Mapping[EngineKey, IndexEngine]:
        """What is searched now."""
        return self._engines

    def size(self) -> int:
        """How many items there are, about: those that have the commonest side."""
        return max((one.count() for (_, kind), one in self._engines.items() if kind == "pooled"), default=0)

    def settle(self) -> dict[EngineKey, list[SegmentReport]]:
        """Wait until nothing is left to seal; what the sealed parts of every engine are."""
        sealing = self._sealing()
        for engine in sealing.values():
            engine.settle()
        return {name: engine.reports() for name, engine in sealing.items()}

    def sealed(self) -> dict[EngineKey, tuple[int, list[SegmentReport]]]:
        """How many rows each engine that seals has now, and what its sealed parts are."""
        return {name: (one.count(), one.reports()) for name, one in self._sealing().items()}

    def sealed_rows(self) -> tuple[int, int]:
        """How many rows of all indexes are sealed, and how many there are; each other one is compared."""
        every = [(count, sum(one.rows for one in parts)) for count, parts in self.sealed().values()]
        rows = sum(count for count, _ in every)
        return min(rows, sum(sealed for _, sealed in every)), rows

    def served(self) -> dict[EngineKey, ServedRecall]:
        """The recall of what was served of late, by engine, where enough was asked again to tell."""
        recalls = {name: one.served.recall() for name, one in self._sealing().items()}
        return {name: recall for name, recall in recalls.items() if recall is not None}

    def unlike(self) -> dict[EngineKey, int]:
        """How many queries of each engine that seals were unlike all that was measured."""
        return {name: one.served.unlike for name, one in self._sealing().items()}

    def read_counts(self) -> dict[EngineKey, ReadCount]:
        """What each engine that seals has read from files of vectors."""
        return {name: one.read_count for name, one in self._sealing().items()}

    def problems(self) -> Iterator[str]:
        """One sentence for each engine that is not what the store makes of it, or finds too little."""
        return find_engine_problems(self._engines, self._store, self._space, self._plan)

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()
        self._engines.clear()
        self.version = NEVER

    def _sealing(self) -> dict[EngineKey, FaissEngine]:
        return {name: one for name, one in [*self._engines.items()] if isinstance(one, FaissEngine)}

    def _apply(self, version: int, ended: list[tuple[int, int]], additions: Iterable[EngineRows]) -> None:
        ended_rows = _joined([all_rows(edition, size) for edition, size in ended])
        with self.gate.writing():
            try:
                for engine in self._engines.values():
                    engine.remove(ended_rows)
                with ExitStack() as filling:
                    for new in additions:
                        whole = self.version == NEVER and new.segment not in self._engines
                        engine = self._engine(new.segment)
                        if whole and isinstance(engine, FaissEngine):
                            filling.enter_context(engine.filling())
                        engine.add(new.rows, new.vectors)
                self.version = version
            except BaseException:
                self.close()  # half a change is no version: rebuild
                raise

    def _engine(self, segment: EngineKey) -> IndexEngine:
        if segment not in self._engines:
            self._engines[segment] = self._new_engine(segment)
        return self._engines[segment]

    def _search(
        self,
        segment: EngineKey,
        query: EngineQuery,
        limit: int,
        allowed: Ids | None = None,
        where: Filter | None = None,
        *,
        exact: bool = False,
    ) -> RowRanking:
        engine = self._engines.get(segment)
        most = (
            0 if engine is None else engine.count() if allowed is None else min(engine.count(), len(allowed))
        )
        if engine is None or most == 0:
            return np.empty(0, np.float32), np.empty(0, np.int64)
        return query.search(self._narrowed(engine, where), min(limit, most), allowed, exact=exact)

    def _narrowed(self, engine: IndexEngine, where: Filter | None) -> IndexEngine:  # noqa: ARG002
        """An engine that may use that allowed rows are those that pass a filter."""
        return engine


def _counted(batches: Iterable[FeatureBatch], on_progress: ProgressCallback) -> Iterator[FeatureBatch]:
    done = 0
    for batch in batches:
        done += len(batch.rows)
        on_progress(done)
        yield batch


def _joined(rows: Sequence[Ids]) -> Ids:
    return np.concatenate([np.empty(0, np.int64), *rows])


def _lasting(rows: Ids) -> Ids:
    """These rows, to which nobody can write from now on: so engines remember what they made of them."""
    rows.flags.writeable = False
    return rows
