"""The facade: items in, hits out. Its engines, texts and blobs are parts with names.

A change is durable in the store before it is acknowledged; then the engines catch up with the store's log, or
a thread does that for them where they are in a cluster. Searches share the engines, a change has them alone
for a moment, so a search sees one version. If a hit was replaced or deleted before it is read from the store,
the search is made again (see `_newest`).
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from index.cluster.contracts import MilvusAddress
from index.cluster.follower import Follower
from index.contracts import DerivedIndex, EngineKey, IndexPlan, IndexPlanError, Memory, RowsLostError, Space
from index.engine_factory import check_plan, place_engines
from index.engine_set.engine_set import EngineSet, ProgressCallback, ignore_progress
from index.engines.saved_engines import remove_unlinked_segments
from index.engines.segments import SegmentReport
from index.fit.fit import fit_collection, read_model
from index.fit.questions import MOST_ITEMS, TextEncoder
from index.maintenance.snapshot import SnapshotReport, take_snapshot
from index.search.background import BackgroundSample
from index.search.edition_cache import EditionCache
from index.search.filter_cache import FilterCache
from index.search.model import EvidenceModel
from index.search.query import Query
from index.search.search import Searcher
from index.store import browse, feedback
from index.store.blobs import Blobs
from index.store.browse import Choice, ValueCount
from index.store.database import StoreError
from index.store.feedback import Judgement
from index.store.filters import Filter
from index.store.folder_locks import WriterLock, refuse_network
from index.store.item_rows import check_vectors
from index.store.store import Store, check_items, make_home, open_blobs
from index.texts.pictures import PictureReader, PictureTexts
from index.texts.text_indexes import TextIndexes
from multifold.bundle.text_reader import TextReader
from multifold.errors import MultifoldError, needs_extra
from multifold.types import Features, Hit, Item, Side

with needs_extra("serve"):
    from sqlalchemy import Connection

Asked = ParamSpec("Asked")
Result = TypeVar("Result")

SEARCH_ATTEMPTS = 10  # moments of the store that a search takes until the engines are of the same version


class CollectionError(MultifoldError):
    """The collection is closed, or open for reading only."""


class Collection(AbstractContextManager["Collection"]):
    """Items of one encoder in one folder; made by `Collection.open`."""

    def __init__(
        self,
        space: Space,
        store: Store,
        blobs: Blobs,
        lock: WriterLock | None,
        planned: Callable[[IndexPlan], EngineSet],
        plan: IndexPlan,
        *,
        texts: TextIndexes,
        writing: PictureTexts | None,
        read_only: bool,
    ) -> None:
        self.blobs = blobs
        self.texts = texts
        self.writing = writing  # of photos, where they are read
        self.plan = plan
        self.engines = planned(plan)  # that are searched now
        self.on_change: Callable[[], object] = lambda: None  # after each change, before the next one
        self._space = space
        self._store = store
        self._lock = lock
        self._read_only = read_only
        self._planned = planned
        self._changing = threading.Lock()
        self._closed = False
        self._written = 0  # our last change
        self._bitmaps = FilterCache()
        self._background = BackgroundSample()
        self._cache = EditionCache()
        for one in reversed(self._derived):  # engines first: if they refuse, no thread reads texts yet
            one.open()
        staleness = self.engines.staleness
        self._follower = None if staleness is None else Follower(self._follow_store, staleness)

    @classmethod
    def open(
        cls,
        folder: Path,
        space: Space,
        *,
        writer: str | None = None,
        read_only: bool = False,
        plan: IndexPlan | None = None,
        probes: Mapping[Side, Features] | None = None,
        database: str | None = None,
        bucket: str | None = None,
        cluster: MilvusAddress | None = None,
        reader: TextReader | None = None,
        picture_reader: PictureReader | None = None,
        memory: Memory = "auto",
    ) -> "Collection":
        """Open a collection, or create it; `writer` is the address that others see while we write.

        `plan` goes before the collection's own, `memory` holds where that is open; `probes` measure it. Items
        are in a `database`, pictures in a `bucket`, else the folder; a `cluster` searches what asks for it.
        """
        if database is None:
            refuse_network(folder)
        blobs = open_blobs(folder, bucket)
        with ExitStack() as undo:
            lock = None
            if not read_only:
                make_home(folder)
            if not (read_only or database):
                lock = WriterLock(folder, writer)
                undo.callback(lock.release)
                blobs.sweep()
            store = Store(database or folder / "store.sqlite", space.vector_id, read_only=read_only)
            undo.callback(store.close)
            store.check_pictures(folder, bucket, writes=not read_only)
            home = folder if database is None else None  # of what is derived, where it is kept
            if home is not None and not read_only:
                remove_unlinked_segments(home / "index")
            planned = partial(
                place_engines,
                space,
                store,
                cluster=cluster,
                home=home and home / "index",
                probes=probes,
                memory=memory,
                writes=not read_only,
                follows=lock is None,
            )
            texts = TextIndexes(store, home and home / "texts", writes=not read_only, reader=reader)
            writing = None
            if picture_reader is not None and home is not None and not read_only:
                writing = PictureTexts(store, blobs, home / "pictures-read", picture_reader)
            plan = plan or store.plan() or IndexPlan()
            collection = cls(
                space, store, blobs, lock, planned, plan, texts=texts, writing=writing, read_only=read_only
            )
            undo.pop_all()
        return collection

    @property
    def _derived(self) -> Sequence[DerivedIndex]:
        """What follows the store, in that order: items that the engines lack are left out of answers."""
        return self.texts, *filter(None, [self.writing]), self.engines

    @property
    def version(self) -> int:
        """The number of the last change that searches see."""
        return self.engines.version

    @property
    def newest(self) -> int:
        """The last change that searches see, or our own last one, if they have yet to see it."""
        return max(self.version, self._written)

    def upsert(self, items: Sequence[Item]) -> int:
        """Store all items or none, each in place of its former self; returns the collection's new version."""
        with self._alone():
            check_items(items, self._store.feature_length)
            if items:
                check_vectors(items, self._space)
            version = self._store.upsert(items) if items else self.version
            self._written = max(version, self._written)
            self._caught_up(len(items))
            return max(version, self.version)

    def differing(self, items: Sequence[Item]) -> list[Item]:
        """Those of the items that are not stored just so."""
        return self._readable().differing(items)

    def delete(self, ids: Sequence[str]) -> int:
        """Remove items; returns how many of them there were."""
        if isinstance(ids, str):
            raise CollectionError(f"delete takes a list of ids: [{ids!r}], not {ids!r}.")
        with self._alone():
            return self._caught_up(self._store.delete(ids))

    def delete_where(self, where: Filter) -> int:
        """Remove the items that a filter lets through; returns how many there were."""
        with self._alone():
            return self._caught_up(self._store.delete_where(where))

    def get(self, id: str) -> Item | None:  # noqa: A002 (what an item's name is called here)
        """One item with its observations, in the order they were given."""
        return self.read(browse.read_item, id)

    def ids(self) -> list[str]:
        return self.read(browse.list_ids)

    def count(self, where: Filter | None = None) -> int:
        """How many items there are, or how many of them a filter lets through."""
        return self.read(browse.count, where)

    def scroll(self, after: str | None = None, limit: int = 100, where: Filter | None = None) -> list[Item]:
        """Items in the order of their ids, from behind the one named: the last of a page begins the next.

        A page of long payloads has fewer.
        """
        return self.read(browse.page_by_id, after, limit, where)[0]

    def facets(
        self, keys: Sequence[str], where: Choice = None, limit: int = 100
    ) -> dict[str, list[ValueCount]]:
        """For each key the values that most items have, with their counts; of all items, or of some."""
        return self.read(browse.count_facets, keys, where, limit)

    def judge(self, judgement: Judgement) -> None:
        """Store a verdict on a hit, in place of its former one."""
        with self._alone(), self._store.writing() as connection:
            feedback.write_judgement(connection, judgement)

    def withdraw(self, judgement: str) -> int:
        """Remove a verdict; returns how many there were, 0 or 1."""
        with self._alone(), self._store.writing() as connection:
            return feedback.remove_judgement(connection, judgement)

    def read(
        self,
        question: Callable[Concatenate[Connection, Asked], Result],
        *args: Asked.args,
        **named: Asked.kwargs,
    ) -> Result:
        """What the store answers to a question, as it is at one moment; `store.browse` has most questions."""
        with self._readable().moment() as now:
            return question(now, *args, **named)

    def search(self, query: Query) -> list[Hit]:
        """The items that are meant, best first; ties go to the first written."""
        return self.search_many([query])[0]

    def search_many(self, queries: Sequence[Query]) -> list[list[Hit]]:
        """The hits of each query, as `search` finds them, read from the store together."""
        for query in queries:
            query.check(self._space.dim)
        found = self._answers(queries)
        for _ in range(SEARCH_ATTEMPTS):
            missed = [query for query, hits in zip(queries, found, strict=True) if hits is None]
            if not missed:
                break
            with self._ready_for(missed):
                again = iter(self._answers(missed))
            found = [next(again) if hits is None else hits for hits in found]
        if len(answers := [hits for hits in found if hits is not None]) < len(queries):
            raise StoreError("The index does not keep up: try again, or ask `multifold index verify`.")
        return answers

    def snapshot(self, path: Path, *, pictures: bool = True) -> SnapshotReport:
        """All of it as it is now, in one new file. Changes go on meanwhile."""
        return take_snapshot(self._readable(), self.blobs, path, pictures=pictures)

    def ask_for(self, plan: IndexPlan) -> None:
        """Every process that opens this collection from now on gets such an index."""
        with self._alone():
            self._store.ask_for(plan)

    def reindex(
        self, plan: IndexPlan, on_progress: ProgressCallback = ignore_progress
    ) -> dict[EngineKey, list[SegmentReport]]:
        """Build another index of what is stored, and search it once it finds what the plan asks for.

        Both are in memory meanwhile. `on_progress` gets the observations in the new one, and may raise.
        """
        check_plan(plan, self._space)
        with ExitStack() as undo:
            new = self._planned(plan)
            undo.callback(new.close)
            if not type(new) is type(self.engines) is EngineSet:
                raise IndexPlanError("A cluster indexes what it holds: there is no index to build here.")
            new.catch_up(on_progress)
            new.settle()
            on_progress(sum(self.read(browse.count_observations).values()))
            with self._alone():
                new.catch_up()
                self._store.ask_for(plan)
                former = self.engines
                self.engines = new
                self.plan = plan
                new.keep()
            undo.pop_all()
        former.lost()  # later searches use the new one
        return new.settle()

    def evidence(self) -> EvidenceModel | None:
        """How the evidence of all legs is weighted, as it was fitted last; None if another encoder, reader or
        language gave the scores then.
        """
        return self.read(read_model, self._made_with())

    def fit_evidence(self, encode: TextEncoder | None = None, most: int = MOST_ITEMS) -> EvidenceModel:
        """Fit how the evidence is weighted, on so many items, and store it. Short queries need an encoder."""
        alone = None if self._read_only else self._alone
        if self.engines.staleness is not None:
            with self._newest():
                pass
        return fit_collection(
            self._readable(), self._space, self.scoring, encode, most, self._made_with(), alone
        )

    def _made_with(self) -> str:
        """What gives the scores that a model of the evidence weighs.

        A reader of photos does not count: processes that only read have none, and without it its weights are
        those before a fit.
        """
        return f"{self._space.vector_id} {self.texts.read_by}"

    @contextmanager
    def scoring(self) -> Iterator[tuple[Searcher, Connection]]:
        """What scores items on all legs, for a moment in which nothing changes; of a cluster what it has."""
        with self._newest() if self._lock is None and self._waits(strong=False) else nullcontext():
            pass
        with self.engines.gate.reading(), self._readable().moment() as now:
            self.engines.seen_at(now, strong=False)
            yield self._searcher(), now

    def disagreements(self) -> list[str]:
        """What the indexes have that the store does not say, or the other way round."""
        with self._newest():
            return [problem for one in self._derived for problem in one.problems()]

    def close(self, *, discard: bool = False) -> None:
        """Wait for the change and the searches that are running, then release everything.

        `discard`: what is kept of it in a cluster is removed.
        """
        if self._follower is not None:
            self._follower.close()
        if discard:
            self.engines.discard()
        with self._changing, self.engines.gate.writing():
            for one in self._derived:
                if self._lock is not None and not self._closed:
                    one.keep()
                one.close()
            self._closed = True
            self._store.close()
            if self._lock is not None:
                self._lock.release()

    def __exit__(self, *_: object) -> None:
        self.close()

    def reaches(self, version: int) -> bool:
        """Whether a search sees this version of the store, or a later one."""
        if self._follower is None or self.version >= version:
            return True
        self._follower.wake()
        return False

    def behind(self) -> float:
        """Seconds for which the indexes have lacked what is stored, where a thread brings them up to it."""
        return 0.0 if self._follower is None else self._follower.behind()

    def _ready_for(self, queries: Sequence[Query]) -> AbstractContextManager[None]:
        """What a search needs that could not be answered yet."""
        if self._waits(strong=any(query.strong for query in queries)):
            return self._newest()
        self.engines.look()
        return nullcontext()

    def _waits(self, *, strong: bool) -> bool:
        """Whether such a search waits until the indexes have all that is stored."""
        return strong or self.engines.staleness is None

    @contextmanager
    def _newest(self) -> Iterator[None]:
        """A moment that all indexes caught up with; if engines know one version only, no change is let in."""
        with ExitStack() as moment, ExitStack() as held:
            held.enter_context(self._changing)
            held.enter_context(self.engines.feeding())  # before: this moment stays the newest one
            moment.enter_context(self._readable().moment())
            for one in self._derived:
                one.catch_up()
            if self.engines.staleness is not None:
                held.close()
            yield

    def _answers(self, queries: Sequence[Query]) -> list[list[Hit] | None]:
        try:
            return self._searcher().answers(queries)
        except RowsLostError:
            self.engines.lost()
            return [None] * len(queries)

    def _searcher(self) -> Searcher:
        return Searcher(
            self._space,
            self._readable(),
            self.engines,
            self._bitmaps,
            self.texts,
            self._background,
            self._cache,
            self.writing,
        )

    def _caught_up(self, changed: int) -> int:
        """Let searches see what the store has; returns how many items changed."""
        if self._follower is None:
            self._bring_up()
        else:
            self._follower.wake()
        self.on_change()
        return changed

    def _bring_up(self) -> None:
        """Have what is derived follow the store."""
        for one in self._derived:
            one.follow()
        for one in self._derived:
            one.save()

    def _follow_store(self) -> bool:
        """The same; whether searches see now what was stored before."""
        wanted = self._store.version()
        self._bring_up()
        return self.version >= wanted

    def _readable(self) -> Store:
        if self._closed:
            raise CollectionError("The collection is closed: open it again.")
        return self._store

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The block is the only one that changes the collection."""
        with self._changing:
            self._readable()
            if self._read_only:
                raise CollectionError(
                    "The collection is open for reading only: send changes to its writer, "
                    "or let its folder be written to."
                )
            yield
