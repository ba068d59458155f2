"""The store of a collection: items, observations with features, and the log of every change, in one
database; and what makes an item fit to be stored.

The change that writes an item numbers its edition (see item_rows.py and metadata.py).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import numpy as np
from sqlalchemy import Connection, delete, inspect, select

from index.contracts import IndexPlan, stored_plan
from index.store import browse, item_rows, metadata
from index.store.blobs import Blobs, FolderBlobs
from index.store.bucket import BucketBlobs
from index.store.database import UNSTORABLE, Database, SQLite, StoreError, insert_rows, is_storable
from index.store.filters import Filter
from index.store.folder_locks import MARK, mark_of_folder
from index.store.item_rows import (
    ANEW,
    MOST_FACTS,
    MOST_OBSERVATIONS,
    VALUES,
    ItemError,
    facts_of,
    in_pieces,
    read_rows,
)
from index.store.metadata import PICTURES, last_change, log_changes, prune_log, pruned_until
from index.store.postgres import Postgres
from index.store.schema import LONGEST_ID, TableRow, facts, items, meta, observations
from multifold.durable import make_folder, sync_folder
from multifold.types import ASPECT_OF, Item, Observation

PLAN, LENGTH = "plan", "feature_length"
IN_BUCKET = "bucket"
ITEMS_BY_ID = select(items).where(items.c.id.in_(VALUES))
DELETE_EDITIONS = delete(items).where(items.c.edition.in_(VALUES))  # observations and facts go with them


class Store:
    """Reads may come from any thread; one thread of one process writes at a time (the collection sees to it).

    `session` names the writes of this process, `former` those before; derived files note which they hold.
    All that a thread reads inside a `moment` is of one version. `known_version` is the number of the last
    change where it is known without asking: nobody else writes, and no change is on its way.
    """

    known_version: int | None = None

    def __init__(self, where: Path | str, vector_id: str | None, *, read_only: bool = False) -> None:
        """A file, or the address of a PostgreSQL database.

        Without a `vector_id` a store that is there is opened for maintenance, whatever its encoder: its items
        stay as they are, and so does its session.
        """
        fresh = not read_only and vector_id is not None
        self._database = database_at(where, read_only=read_only, fresh=fresh)
        self.moment = self._database.reading
        self.writing = self._database.writing
        self.alone = self._database.alone
        self.close = self._database.close
        self.vacuum = self._database.vacuum
        self.unsound = self._database.unsound
        self.size = self._database.size
        try:
            if not read_only:
                with self.writing() as connection:
                    if isinstance(where, Path) and not inspect(connection).has_table(meta.name):
                        refuse_remains(where, "pictures")  # the registry may be older
                    metadata.create_or_migrate(connection, vector_id)
            if fresh and isinstance(where, Path):
                sync_folder(where.parent)
            with self.moment() as connection, _damage_in_words(self._database.name):
                if not inspect(connection).has_table(meta.name):
                    raise StoreError(f"There is no collection in {self._database.name}.")
                stamp = metadata.check_stamp(connection, self._database.name, vector_id)
                self.vector_id = stamp.vector_id
                self.feature_length = stamp.feature_length
                self.former = self.session = metadata.read_note(connection, metadata.SESSION)
                self.collection = metadata.read_note(connection, metadata.COLLECTION) or ""
                if fresh:
                    metadata.check_clock(connection)
            if fresh and not self._database.shared:
                with self._changing() as connection:
                    self.session = metadata.begin_session(connection)
                    self.collection = metadata.name_collection(connection)
        except BaseException:
            self.close()
            raise

    def version(self) -> int:
        with self.moment() as now:
            return last_change(now)

    def upsert(self, new: Sequence[Item]) -> int:
        """Write all items or none, each in place of its former edition; returns the last change's number."""
        with self._changing() as connection:
            length = self._settle_length(connection, new)
            former = _delete_editions(connection, [item.id for item in new])
            first = log_changes(connection, "upsert", [(item.id, former.get(item.id)) for item in new])
            editions = list(enumerate(new, first))
            rows = [item_rows.item_record(edition, item, former.get(item.id)) for edition, item in editions]
            insert_rows(connection, items, rows)
            records = chain.from_iterable(item_rows.observation_records(*one) for one in editions)
            insert_rows(connection, observations, list(records))
            values = [one for row in rows for one in item_rows.fact_records(row["edition"], row["payload"])]
            insert_rows(connection, facts, values)
        self.feature_length = length
        return first + len(new) - 1

    def differing(self, new: Sequence[Item]) -> list[Item]:
        """Those of the items that are not stored just so."""
        with self.moment() as now:
            rows = read_rows(now, ITEMS_BY_ID, [item.id for item in new if is_storable(item.id)])
            there = {item.id: item for item in browse.read_items(now, [row._mapping for row in rows])}
        return [item for item in new if not item_rows.are_equal(item, there.get(item.id))]

    def delete(self, ids: Iterable[str]) -> int:
        """Remove items; returns how many there were."""
        with self._changing() as connection:
            return _delete(connection, sorted(set(ids)))

    def delete_where(self, where: Filter) -> int:
        """Remove the items that a filter lets through; returns how many there were."""
        with self._changing() as connection:
            return _delete(connection, browse.list_ids(connection, where))

    def reaches(self, version: int) -> bool:
        """Whether the log has every change after a version."""
        with self.moment() as now:
            return pruned_until(now) <= version <= last_change(now)

    def prune(self, kept: int) -> int:
        """Delete all changes from the log but the last `kept`; returns how many were deleted."""
        with self.writing() as connection:
            return prune_log(connection, kept)

    def plan(self) -> IndexPlan | None:
        """The index that this collection asks for, if it asks."""
        with self.moment() as now:
            plan = metadata.read_note(now, PLAN)
        with _damage_in_words(self._database.name):
            return None if plan is None else stored_plan(json.loads(plan))

    def ask_for(self, plan: IndexPlan) -> None:
        """From now on this collection asks for such an index, in every process that opens it."""
        with self.writing() as connection:
            metadata.write_note(connection, PLAN, json.dumps(asdict(plan)))

    def noted(self, key: str) -> str | None:
        """What any process has noted under this key by now, whatever moment this thread is in."""
        with self._database.apart() as connection:
            return metadata.read_note(connection, key)

    def note(self, key: str, change: Callable[[str | None], str]) -> str:
        """Change the note under this key, given what is noted there; returns what is noted then."""
        with self.writing() as connection:
            note = change(metadata.read_note(connection, key))
            metadata.write_note(connection, key, note)
        return note

    def check_pictures(self, folder: Path, bucket: str | None, *, writes: bool) -> None:
        """Refuse a folder or bucket for pictures that other processes of a shared store do not have."""
        if not self._database.shared:
            return
        here = IN_BUCKET if bucket else mark_of_folder(folder, make=writes)
        there = self.noted(PICTURES)
        if writes and here is not None and (there is None or bucket):
            there = self.note(PICTURES, lambda noted: here if bucket else noted or here)
        if there == IN_BUCKET and not bucket:
            raise StoreError("The pictures of this collection are in a bucket: set MULTIFOLD_BUCKET.")
        if there not in (None, here) and not bucket:
            raise StoreError(
                f"The pictures of this collection are not in {folder}, but in a folder whose file {MARK} "
                f"holds {there}. Let all services share that one, or set MULTIFOLD_BUCKET."
            )

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        self.known_version = None
        with self.writing() as connection:
            yield connection
            last = None if self._database.shared else last_change(connection)
        self.known_version = last

    def _settle_length(self, connection: Connection, new: Sequence[Item]) -> int:
        """The first items decide how long features are in this collection."""
        if self.feature_length is not None:
            return self.feature_length
        length = len(new[0].observations[0].feature)
        noted = metadata.read_note(connection, LENGTH)
        if noted is None:
            metadata.write_note(connection, LENGTH, str(length))
        elif noted != str(length):  # another process was first
            self.feature_length = int(noted)
            raise StoreError(f"The features of this collection have {noted} numbers, not {length}.")
        return length


def check_items(new: Sequence[Item], feature_length: int | None) -> None:
    """Refuse the first item that is not fit to be stored, by name."""
    names: set[str] = set()
    for item in new:
        _check_id(item.id)
        if not item.whole:
            raise ItemError(f"Item {item.id!r}: its payload or its list of files is damaged: {ANEW}.")
        if item.damaged:
            kind, place = item.damaged[0].kind, item.damaged[0].index
            raise ItemError(f"Item {item.id!r}: {kind} {place} is damaged: {ANEW}.")
        if item.id in names:
            raise ItemError(f"Item {item.id!r} stands twice in one call: which of the two is meant?")
        names.add(item.id)
        feature_length = _check_item(item, feature_length)


def _check_id(id: str) -> None:  # noqa: A002 (what an item's name is called here)
    if not id or len(id) > LONGEST_ID:
        raise ItemError(f"An item's id needs 1 to {LONGEST_ID} characters; {id[:40]!r} has {len(id)}.")
    if not is_storable(id):
        raise ItemError(f"Item {id!r}: the id {UNSTORABLE}.")


def _check_item(item: Item, feature_length: int | None) -> int:
    if not 0 < (many := len(item.observations)) <= MOST_OBSERVATIONS:
        wanted = f"it needs one or more, up to {MOST_OBSERVATIONS}"
        raise ItemError(f"Item {item.id!r} has {many} observations; {wanted}.")
    _check_payload(item)
    names: set[tuple[str, int]] = set()
    length = feature_length or item.observations[0].feature.size
    for observation in item.observations:
        problem = _problem(observation, length)
        if problem is None and (observation.kind, observation.index) in names:
            problem = "stands twice"
        if problem is not None:
            raise ItemError(f"Item {item.id!r}: {observation.kind} {observation.index} {problem}.")
        names.add((observation.kind, observation.index))
    return length


def _problem(observation: Observation, length: int) -> str | None:
    feature = observation.feature
    if observation.kind not in ASPECT_OF:
        return f"is of no known kind; kinds are {', '.join(ASPECT_OF)}"
    if observation.index < 0:
        return "has a negative index"
    if observation.text is not None and not observation.text.strip():
        return "has no text"
    if not is_storable(observation.text or ""):
        return f"has a text that {UNSTORABLE}"
    if feature.ndim != 1 or feature.size != length or not length:
        return f"has a feature of shape {feature.shape}; those of this collection have ({length or 'n'},)"
    return None if np.isfinite(feature).all() else "has a feature with numbers that are not finite"


def _check_payload(item: Item) -> None:
    try:
        values = facts_of(json.loads(json.dumps(dict(item.payload), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ItemError(f"Item {item.id!r}: the payload is not a JSON object ({error}).") from error
    if len(values) > MOST_FACTS:
        many = f"{len(values)} values; up to {MOST_FACTS} can be filtered by"
        raise ItemError(f"Item {item.id!r}: the payload has {many}.")


def database_at(where: Path | str, *, read_only: bool, fresh: bool) -> Database:
    """A file, made if it may be `fresh`, or a PostgreSQL database by its address."""
    if isinstance(where, str):
        return Postgres(where, read_only=read_only)
    if fresh:
        make_home(where.parent)
        if not where.is_file() or where.stat().st_size == 0:
            refuse_remains(where)
    else:
        refuse_missing(where)
    return SQLite(where, read_only=read_only)


@contextmanager
def _damage_in_words(name: str) -> Iterator[None]:
    """What a store says of itself that makes no sense is damage."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        advice = "restore a snapshot with `multifold index restore`"
        raise StoreError(f"{name} is damaged ({error!r}): {advice}.") from error


def open_blobs(home: Path, bucket: str | None) -> Blobs:
    """The blobs of a collection: in its folder, or in a bucket by its address."""
    if bucket is None:
        return FolderBlobs(home / "blobs")
    return BucketBlobs(home, bucket)


def make_home(folder: Path) -> None:
    try:
        make_folder(folder)
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be made: {error.strerror or error}. Check its permissions."
        ) from error


REMAINS = {"pictures": "blobs/*/*", "other collections": "collections/c_*"}


def refuse_remains(path: Path, *kinds: str) -> None:
    """Raise if there is a collection whose store is gone: a new one would look healthy, and be empty."""
    counts = {kind: sum(1 for _ in path.parent.glob(REMAINS[kind])) for kind in kinds or REMAINS}
    if any(counts.values()):
        found = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
        raise StoreError(
            f"{path} is missing or empty, and {found} are beside it. Put the file back, or make a new folder "
            f"from a snapshot with `multifold index restore`. If the items are in PostgreSQL, name the "
            f"database. To begin anew, move {path.parent} away."
        )


def refuse_missing(path: Path) -> None:
    if not path.is_file():
        refuse_remains(path)
        raise StoreError(f"There is no collection in {path.parent}: open it for writing to create one.")


def _delete(connection: Connection, ids: Sequence[str]) -> int:
    former = _delete_editions(connection, ids)
    if former:
        log_changes(connection, "delete", former.items())
    return len(former)


def _delete_editions(connection: Connection, ids: Sequence[str]) -> dict[str, TableRow]:
    """Delete the present editions of those items that are there; returns their former rows."""
    rows = read_rows(connection, ITEMS_BY_ID, list(filter(is_storable, ids)))
    former: dict[str, TableRow] = {row.id: row._mapping for row in rows}
    ended = [row["edition"] for row in former.values()]
    for some in in_pieces(ended):
        connection.execute(DELETE_EDITIONS, {VALUES.key: some})
    return former
