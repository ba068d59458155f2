"""Engines in a cluster, shared by all processes that have the collection open, and how far they were fed.

One process at a time feeds the cluster from the store's log, a thread of its own, soon after each change; all
writes may be repeated, so one that dies or stops halfway does no harm. How far the cluster was fed, and under
which names, is noted in the store.

A search takes the rows that are there, and of them those whose edition is alive in the store at its moment:
what ended is dropped at once, what is new is missing until it is fed. A strong search feeds the cluster
itself, up to its own moment. Rows of editions that ended are removed a while later."""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from uuid import uuid4

import numpy as np
from jaxtyping import Bool

from index.cluster.contracts import BehindError, ClusterError, ClusterLostError, MilvusAddress
from index.cluster.living_editions import LivingEditions
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

    def reaches(self, version: int) -> bool:
        """Whether the cluster has all that the store had at a version, as it was then or later."""
        return self.whole and self.fed >= version

    def as_note(self) -> str:
        return json.dumps(asdict(self))


def mark_from_note(note: str | None) -> FeedMark | None:
    """The mark that `as_note` wrote, if it did; rows with other fields or sides are as good as none."""
    raw = {} if note is None else json.loads(note)
    if raw.get("fields") != FIELDS or any(side not in ASPECTS for side, _ in raw["segments"]):
        return None
    return FeedMark(**raw | {"segments": tuple((side, kind) for side, kind in raw["segments"])})


log = logging.getLogger(__name__)

GRACE = 10.0  # seconds that ended rows stay: no strong search takes longer
SWEEP_SECONDS = 2.0  # seconds between two removals
STALLED = 5.0  # seconds without progress after which the feeding process is not waited for
STRONG_SECONDS = 30.0  # for which a strong search waits for another one that feeds
CHECK_SECONDS = 0.02  # seconds between two checks of how far it is
BEING_FED = "The index is being fed, and does not have the last changes yet: ask again, or for what it has."
LOGICAL_BITS = 18  # of the cluster's times, behind the milliseconds


class ClusterEngineSet(EngineSet):
    """The engines of a cluster, fed from the store; searches take what is there."""

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
        self.staleness: float = cluster.staleness
        self._index = plan.milvus_type
        self._writes = writes
        self._link = MilvusConnection(cluster)
        self._measuring = RecallMonitor(space, store, probes, plan.recall)
        self._mark = FeedMark()  # where we looked last
        self._moved = NEVER, 0.0  # how far the cluster was when it moved last, and when that was
        self._fed: deque[tuple[float, int]] = deque()  # versions that we fed, and when
        self._swept = 0.0  # when we removed rows last
        self._one_feeds = threading.Lock()
        self._one_adopts = threading.RLock()
        self._living = LivingEditions()
        self._here = threading.local()  # what this thread has fed, and what it has to see

    def open(self) -> None:
        """Begin with what the cluster has, if it is there."""
        try:
            self.look()
        except ClusterError as error:
            log.info("the cluster is searched later: %s", error)

    def look(self) -> None:
        """Search what the cluster has by now."""
        with self._one_adopts:  # so nothing that was noted earlier takes its place
            mark = self._noted()
            if mark is not None or self.version == NEVER:
                self._adopt(mark or FeedMark())

    def follow(self) -> None:
        """Feed the cluster what is new, unless another process does."""
        wanted, mark = self._store.version(), self._noted() or FeedMark()
        if mark.fed != self._moved[0] or mark.reaches(wanted):
            self._moved = mark.fed, time.monotonic()
        if self._writes and not mark.reaches(wanted):
            with self._turn() as mine:
                if mine or time.monotonic() - self._moved[1] > STALLED:
                    return self._feed_all()
        return self.look()

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """While it lasts no other process feeds the cluster: a moment that begins within it is the newest."""
        until = time.monotonic() + STRONG_SECONDS
        while self._writes:
            with self._turn() as mine:
                if mine:
                    yield
                    return
            if time.monotonic() > until:
                raise BehindError(BEING_FED)
            time.sleep(CHECK_SECONDS)
        yield

    def catch_up(self, on_progress: ProgressCallback = ignore_progress) -> None:  # noqa: ARG002
        """Have the cluster fed all that the store has at this moment.

        Who may not write waits until another process has; then the moment may be over, and an item that is
        written again meanwhile is missing.
        """
        wanted = self._store.version()
        if self._writes:
            self._feed_all()
        else:
            self._wait_for(wanted)
        self._here.fed, self._here.since = (wanted, self._mark.written), self._mark.written
        for graph in self._graphs().values():
            graph.recount()

    def version_at(self, now: Connection) -> int:
        """The version of the store at this moment: engines may have another."""
        return self._living.version_at(now)

    def seen_at(self, now: Connection, *, strong: bool) -> int | None:
        """The version of the store that a search sees; None if it has to look at the cluster first.

        What this thread reads of the cluster from now on is as such a search needs it.
        """
        version = self.version_at(now)
        fed, written = getattr(self._here, "fed", (NEVER, 0))
        was_fed = version in (fed, self._mark.fed if self._mark.whole else NEVER)
        if self.version == NEVER or (strong and not was_fed):
            return None
        if not self._mark.segments:
            self._link.find(self._mark.place)  # nothing was fed yet: an error if the cluster is away
        if strong and fed != version:
            self._here.since = self._mark.written
            for graph in self._graphs().values():
                graph.recount()
        elif strong:
            self._here.since = written
        else:
            old = int((time.time() - self.staleness) * 1000) << LOGICAL_BITS
            self._here.since = min(self._mark.written, old)
        return version

    def lost(self) -> None:
        """Begin again with what the store knows of the cluster."""
        with self.gate.writing():
            self._engines = {}
            self.version = NEVER

    def settle(self) -> dict[EngineKey, list[SegmentReport]]:
        """Feed what is new, and measure the recall of what has grown; what all graphs are and find."""
        if self._writes:
            with self.feeding():
                self.catch_up()
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
        return MilvusEngine(space.dim, space.metric, self._link, name, self._counts, self._index, self._since)

    def _at(self, segment: EngineKey) -> MilvusEngine:
        engine = self._engine(segment)
        assert isinstance(engine, MilvusEngine)
        return engine

    def _narrowed(self, engine: IndexEngine, where: Filter | None) -> IndexEngine:
        assert isinstance(engine, MilvusEngine)
        return engine if where is None else engine.narrowed(condition_of(where))

    def _graphs(self) -> dict[EngineKey, MilvusEngine]:
        return {segment: self._at(segment) for segment in [*self._engines]}  # a thread may add some

    def _counts(self, rows: Ids) -> Bool[np.ndarray, " k"]:
        """Which rows are of an edition that the store has at the moment that this thread reads."""
        editions, places = np.unique(edition_of(rows), return_inverse=True)
        with self._store.moment() as now:
            living = self._living.among(now, editions.tolist())
        return np.array([edition in living for edition in editions.tolist()], np.bool_)[places]

    def _since(self) -> int | None:
        """The cluster's time of what this thread has to see, if that is known."""
        return getattr(self._here, "since", None)

    def _noted(self) -> FeedMark | None:
        return mark_from_note(self._store.noted(FEED_MARK))

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Whether this thread alone feeds, of all threads and processes; it never waits."""
        if not self._one_feeds.acquire(blocking=False):
            yield False
            return
        try:
            with self._store.alone("feed") as mine:
                yield mine
        finally:
            self._one_feeds.release()

    def _wait_for(self, version: int) -> None:
        fed, since = NEVER, time.monotonic()
        while not (mark := self._noted() or FeedMark()).reaches(version):
            if mark.fed != fed:
                fed, since = mark.fed, time.monotonic()
            if time.monotonic() - since > STALLED:
                raise BehindError("The cluster lacks the last changes, and nobody feeds it: start a service.")
            time.sleep(CHECK_SECONDS)
        self._adopt(mark)

    def _feed_all(self) -> None:
        """Feed what is new, or everything, if the cluster has lost rows."""
        try:
            self._feed(self._noted() or FeedMark())
        except ClusterLostError as error:
            log.warning("%s", error)
            self._begin_again()
            self._feed(self._noted() or FeedMark())

    def _feed(self, mark: FeedMark) -> None:
        """Write what is newer than the mark; what was written before does no harm."""
        self._adopt(mark)
        with self._store.moment() as now:
            if mark.reaches(last_change(now)):
                return
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
        """Remove what ended so long ago that no strong search needs it any more."""
        now = time.monotonic()
        self._fed.append((now, mark.fed))
        if now < self._swept + SWEEP_SECONDS:
            return
        until = mark.swept
        while self._fed and self._fed[0][0] <= now - GRACE:
            until = max(until, self._fed.popleft()[1])
        if until > mark.swept:
            self._swept = now
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
        with self._one_adopts:
            if mark.place == self._mark.place and mark.fed < self._mark.fed and self.version != NEVER:
                return  # it was read before what we have
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
