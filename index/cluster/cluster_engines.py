"""Engines in a cluster, shared by all processes that have the collection open, and how far they were fed.

A process that finds the cluster behind the version that it needs feeds it from the store's log, one process
at a time; all writes may be repeated, so one that dies or stops halfway does no harm. Rows are fed as of a
version of the store: what ended before that was never fed. So only versions that a process fed up to are
whole. A reader searches one whole version; rows of other versions are there too, and it drops them: those
that are newer, and those that have ended, which are removed a while later. How far the cluster was fed, and
under which names, is noted in the store."""

import json
import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from uuid import uuid4

import numpy as np
from jaxtyping import Bool

from index.cluster.contracts import ClusterError, ClusterLostError, MilvusAddress
from index.cluster.milvus_connection import MilvusConnection
from index.cluster.milvus_engine import MilvusEngine
from index.cluster.payload_fields import condition_of, tokens_of
from index.cluster.recall_monitor import RecallMonitor
from index.contracts import NEVER, EngineKey, Ids, IndexEngine, IndexPlan, Space
from index.engine_set.engine_set import EngineSet, ProgressCallback, ignore_progress
from index.engines.segments import SegmentReport
from index.store.filters import Filter, read_facts
from index.store.item_rows import (
    OBSERVATIONS_AT_ONCE,
    derive_usable_rows,
    edition_of,
    living_editions,
    observation_rows,
    pooled_row,
)
from index.store.metadata import FEED_MARK, ChangesSince, last_change
from index.store.store import Store
from multifold.errors import needs_extra
from multifold.types import ASPECTS, Features, Side

with needs_extra("serve"):
    from sqlalchemy import Connection

FIELDS = 2  # what rows carry beside their vectors; counted up when that changes


@dataclass(frozen=True)
class FeedMark:
    """How far the cluster has got; a new one has names of its own, under which nothing is fed yet."""

    place: str = field(default_factory=lambda: f"multifold_{uuid4().hex}")  # what all its names begin with
    fed: int = 0
    swept: int = 0
    whole: bool = False  # whether all rows of the version `fed` are there
    written: int = 0  # the cluster's time of the last write; 0: unknown
    segments: tuple[EngineKey, ...] = ()
    fields: int = FIELDS

    def name(self, segment: EngineKey) -> str:
        """What one side and kind of rows is called in the cluster."""
        return "_".join([self.place, *segment])

    def after(self, noted: "FeedMark | None") -> "FeedMark":
        """What to note when this is noted already, perhaps of a later version: nothing goes back."""
        if noted is None:
            return self
        if noted.place != self.place:
            return noted
        ahead = max(self, noted, key=lambda one: (one.fed, one.whole))
        return replace(
            ahead,
            swept=max(self.swept, noted.swept),
            written=max(self.written, noted.written),
            segments=tuple(sorted({*self.segments, *noted.segments})),
        )

    def as_note(self) -> str:
        return json.dumps(asdict(self))


def mark_from_note(note: str | None) -> FeedMark | None:
    """The mark that `as_note` wrote, if it did; rows with other fields or sides are as good as none."""
    raw = {} if note is None else json.loads(note)
    if raw.get("fields") != FIELDS or any(side not in ASPECTS for side, _ in raw["segments"]):
        return None
    return FeedMark(**raw | {"segments": tuple((side, kind) for side, kind in raw["segments"])})


@dataclass(frozen=True)
class WholeVersion:
    """A version of the store of which the cluster has all rows."""

    since: float  # when it was the last one
    written: int  # the cluster's time of its last write; 0: unknown


log = logging.getLogger(__name__)

GRACE = 120.0  # seconds that ended rows stay: longer than any search takes
MOST_ENDED = 1_000  # changes; rows that ended before the last so many stay
SHORT_GRACE = 10.0  # seconds only: searches meet what ended, and drop it
STALLED = 15.0  # seconds without progress after which the feeding process is not waited for
CHECK_SECONDS = 0.02  # seconds between two checks of how far it is


class ClusterEngineSet(EngineSet):
    """The engines of a cluster, fed from the store and seen as of one version of it."""

    keeps_versions = True

    def __init__(
        self,
        space: Space,
        store: Store,
        cluster: MilvusAddress,
        plan: IndexPlan,
        probes: Mapping[Side, Features] | None = None,
        *,
        writes: bool,
    ) -> None:
        super().__init__(space, store, self._new, plan)
        self._index = plan.milvus_type
        self._writes = writes
        self._link = MilvusConnection(cluster)
        self._measuring = RecallMonitor(space, store, probes, plan.recall)
        self._mark = FeedMark()  # where we looked last
        self._feeds = False  # whether no other process may feed at the moment
        self._fed: deque[tuple[float, int]] = deque()  # versions that we fed, and when
        self._recent: dict[int, WholeVersion] = {}

    def follow(self) -> None:
        """Catch up if the cluster is there; otherwise the next search does, or raises."""
        try:
            self.catch_up()
        except ClusterError as error:
            log.info("the cluster is fed later: %s", error)

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """While it lasts no other process feeds the cluster, but where one that does is not waited for.

        So a moment that begins within it is still the newest one when the cluster has been fed that far.
        """
        until = time.monotonic() + STALLED
        while self._writes and time.monotonic() < until:
            with self._store.alone("feed") as mine:
                if mine:
                    self._feeds = True
                    try:
                        yield
                    finally:
                        self._feeds = False
                    return
            time.sleep(CHECK_SECONDS)
        yield

    def catch_up(self, on_progress: ProgressCallback = ignore_progress) -> None:  # noqa: ARG002
        """Feed the cluster what the store has at this moment, unless it was fed with what is newer.

        Then this moment is over: rows that ended meanwhile were never fed.
        """
        wanted = self._store.version()
        if self.version == wanted:
            return
        try:
            self._reach(wanted)
        except ClusterLostError as error:
            if not self._writes:
                raise
            log.warning("%s", error)
            self._begin_again()
            self._reach(wanted)

    def version_at(self, now: Connection) -> int:
        """The version that is searched at this moment: engines may be further by now."""
        return last_change(now)

    def seen_at(self, now: Connection) -> int | None:
        """The version that a search looks at; None if the cluster is not known to have all of it."""
        version = self.version_at(now)
        return version if version in self._recent else None

    def still_has(self, version: int, since: float) -> bool:
        """Whether nothing that a search of a version needs was removed since it began."""
        if time.monotonic() - since < SHORT_GRACE:
            return True
        mark = mark_from_note(self._store.noted(FEED_MARK))
        return mark is not None and mark.swept <= version

    def lost(self) -> None:
        """Begin again with what the store knows of the cluster."""
        with self.gate.writing():
            self._engines = {}
            self.version = NEVER
            self._recent = {}

    def settle(self) -> dict[EngineKey, list[SegmentReport]]:
        """Measure the recall of what has grown; what all graphs are and find."""
        graphs = self._graphs()
        if self._writes:
            self._measuring.wait()
            self._measuring.now(graphs)
        return {segment: [graph.measured] for segment, graph in graphs.items() if graph.measured}

    def close(self) -> None:
        """Disconnect from the cluster; what it holds stays."""
        self._measuring.close()
        super().close()
        self._link.close()

    def discard(self) -> None:
        """Remove all that the cluster holds of this collection."""
        try:
            for graph in self._graphs().values():
                graph.drop()
        except ClusterError as error:
            log.warning("rows of a collection that is gone stay in the cluster: %s", error)

    def _new(self, segment: EngineKey) -> MilvusEngine:
        name = self._mark.name(segment)
        space = self._space
        return MilvusEngine(
            space.dim, space.metric, self._link, name, self._counts, self._index, self._written
        )

    def _at(self, segment: EngineKey) -> MilvusEngine:
        engine = self._engine(segment)
        assert isinstance(engine, MilvusEngine)
        return engine

    def _narrowed(self, engine: IndexEngine, where: Filter | None) -> IndexEngine:
        assert isinstance(engine, MilvusEngine)
        return engine if where is None else engine.narrowed(condition_of(where))

    def _graphs(self) -> dict[EngineKey, MilvusEngine]:
        return {segment: self._at(segment) for segment in self._engines}

    def _counts(self, rows: Ids) -> Bool[np.ndarray, " k"]:
        """Which rows are of an edition that the store has, in the version that this thread reads."""
        editions, places = np.unique(edition_of(rows), return_inverse=True)
        with self._store.moment() as now:
            living = living_editions(now, editions.tolist())
        return np.isin(editions, np.array(living, np.int64))[places]

    def _written(self) -> int | None:
        """The cluster's time of the last write of the version that this thread reads, if it is known.

        Reads that wait for no later one do not wait for those who write meanwhile.
        """
        with self._store.moment() as now:
            whole = self._recent.get(last_change(now))
        return None if whole is None else whole.written

    def _reach(self, wanted: int) -> None:
        """Wait until the cluster is fed as far as wanted; feed it if no other process does."""
        best = NEVER
        since = time.monotonic()
        while True:
            with nullcontext(True) if self._feeds else self._store.alone("feed") as mine:
                mark = mark_from_note(self._store.noted(FEED_MARK)) or FeedMark()
                if mark.whole and mark.fed >= wanted:
                    return self._adopt(mark)
                if mark.fed > wanted:
                    return None  # another process feeds what is newer, and this moment is over
                if mark.fed > best:
                    best, since = mark.fed, time.monotonic()
                stalled = time.monotonic() - since > STALLED
                if (mine or stalled) and self._writes:
                    return self._feed(mark)
            if stalled:
                raise ClusterError(
                    "The cluster lacks the last changes, and nobody feeds it: start a service."
                )
            time.sleep(CHECK_SECONDS)

    def _feed(self, mark: FeedMark) -> None:
        """Write what is newer than the mark; what was written before does no harm."""
        self._adopt(mark)
        with self._store.moment() as now:
            progress = ChangesSince(now, mark.fed, OBSERVATIONS_AT_ONCE)
            for batch in progress.batches():
                facts = read_facts(now, np.unique(edition_of(batch.rows)).tolist())
                tokens = {edition: tokens_of(some) for edition, some in facts.items()}
                for new in derive_usable_rows(batch, self._space):
                    carried = [tokens[edition] for edition in edition_of(new.rows).tolist()]
                    self._at(new.segment).put(new.rows, new.vectors, carried)
                mark = self._noting(mark, edition_of(int(batch.rows[-1])), whole=False)
            mark = self._noting(mark, progress.version, whole=True)
            self._sweep(mark)
        self._adopt(mark)

    def _noting(self, mark: FeedMark, fed: int, *, whole: bool) -> FeedMark:
        """Note for all processes how far the cluster is."""
        written = max((graph.written for graph in self._graphs().values()), default=0)
        return self._note(
            replace(mark, fed=fed, whole=whole, written=written, segments=tuple(sorted(self._engines)))
        )

    def _note(self, mark: FeedMark) -> FeedMark:
        """Note a mark; returns what is noted then, for others may be further."""
        note = self._store.note(FEED_MARK, lambda noted: mark.after(mark_from_note(noted)).as_note())
        newest = mark_from_note(note) or mark
        if newest.place != mark.place:
            raise ClusterLostError("The cluster lost rows, and somebody has begun again elsewhere.")
        return newest

    def _sweep(self, mark: FeedMark) -> None:
        """Remove what ended so long ago that no search needs it any more."""
        now = time.monotonic()
        self._fed.append((now, mark.fed))
        until = mark.swept
        while self._fed:
            since, version = self._fed[0]
            if since > now - (GRACE if mark.fed - version <= MOST_ENDED else SHORT_GRACE):
                break
            until = max(until, version)
            self._fed.popleft()
        if until > mark.swept:
            for segment, graph in self._graphs().items():
                graph.remove(self._ended(mark, until, segment))
            self._note(replace(mark, swept=until))

    def _ended(self, mark: FeedMark, until: int, segment: EngineKey) -> Ids:
        """Rows of one engine whose edition ended after the last sweep."""
        if not self._store.reaches(mark.swept):  # the log was cut short: every row is checked
            rows = self._at(segment).ids()
            return rows[~self._counts(rows) & (edition_of(rows) <= mark.fed)]
        with self._store.moment() as now:
            ended = ChangesSince(now, mark.swept, OBSERVATIONS_AT_ONCE).ended(until)
        side, kind = segment
        if kind == "pooled":
            return pooled_row(np.array([edition for edition, _ in ended], np.int64), side)
        return np.concatenate([np.empty(0, np.int64), *(observation_rows(*one) for one in ended)])

    def _adopt(self, mark: FeedMark) -> None:
        """Search what the mark says is there."""
        self._mark = mark
        graphs = {at: graph for at, graph in self._graphs().items() if graph.name == mark.name(at)}
        for segment in mark.segments:
            if segment not in graphs:
                graphs[segment] = self._new(segment)
                graphs[segment].attach()
        for graph in graphs.values():
            graph.see(mark.written)
        if graphs != self._engines:
            with self.gate.writing():
                self._engines = {**graphs}
                self.version = mark.fed
                self._recent = {}
        if mark.whole:
            fresh = time.monotonic() - GRACE / 2
            still = {version: whole for version, whole in self._recent.items() if whole.since > fresh}
            self._recent = still | {mark.fed: WholeVersion(time.monotonic(), mark.written)}
        self.version = mark.fed  # without waiting for searches, whose rows stay
        self._measuring.check(graphs, writes=self._writes)

    def _begin_again(self) -> None:
        """Rows were lost: from now on all processes use other names, where rows are derived again."""
        lost = self._mark.place
        self.lost()

        def change(noted: str | None) -> str:
            mark = mark_from_note(noted)
            return (mark if mark and mark.place != lost else FeedMark()).as_note()

        self._store.note(FEED_MARK, change)
