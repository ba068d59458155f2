"""The store of a collection: items, observations with features, and the log of every change, in one
database.

The change that writes an item numbers its edition (see item_rows.py and metadata.py).
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from index.contracts import IndexPlan
from index.store import browse, item_rows, lexical_index, metadata
from index.store.blobs import Blobs, FolderBlobs
from index.store.database import Database, SQLite, StoreError
from index.store.filters import Filter
from index.store.item_rows import VALUES, TableRow, in_pieces, is_storable, read_rows
from index.store.metadata import last_change, log_changes, prune_log, pruned_until
from index.store.schema import facts, items, meta, observations
from multifold.durable import make_folder, sync_folder
from multifold.errors import needs_extra
from multifold.types import Item

with needs_extra("serve"):
    from sqlalchemy import Connection, delete, insert, inspect, select

PLAN, LENGTH = "plan", "feature_length"
ITEMS_BY_ID = select(items).where(items.c.id.in_(VALUES))
DELETE_EDITIONS = delete(items).where(items.c.edition.in_(VALUES))  # observations and facts go with them


class Store:
    """Reads may come from any thread; one thread of one process writes at a time (the collection sees to it).

    `session` names the writes of this process, `former` those before; derived files note which they hold.
    All that a thread reads inside a `moment` is of one version.
    """

    def __init__(self, where: Path | str, vector_id: str | None, *, read_only: bool = False) -> None:
        """A file, or the address of a PostgreSQL database.

        Without a `vector_id` a store that is there is opened for maintenance, whatever its encoder: its items
        stay as they are, and so does its session.
        """
        fresh = not read_only and vector_id is not None
        self._database = database_at(where, read_only=read_only, fresh=fresh)
        self.moment, self.writing = self._database.reading, self._database.writing
        self.alone, self.close = self._database.alone, self._database.close
        self.vacuum, self.unsound = self._database.vacuum, self._database.unsound
        try:
            if not read_only:
                with self.writing() as connection:
                    metadata.create_or_migrate(connection, vector_id)
                    lexical_index.ensure_index(connection)
            if fresh and isinstance(where, Path):
                sync_folder(where.parent)
            with self.moment() as connection:
                if not inspect(connection).has_table(meta.name):
                    raise StoreError(f"There is no collection in {self._database.name}.")
                stamp = metadata.check_stamp(connection, self._database.name, vector_id)
                self.vector_id, self.feature_length = stamp.vector_id, stamp.feature_length
                self.former = self.session = metadata.read_note(connection, metadata.SESSION)
                self.has_words = lexical_index.has_index(connection)
            if fresh and not self._database.shared:
                with self.writing() as connection:
                    self.session = metadata.begin_session(connection)
        except BaseException:
            self.close()
            raise

    def version(self) -> int:
        """The number of the last change."""
        with self.moment() as now:
            return last_change(now)

    def upsert(self, new: Sequence[Item]) -> int:
        """Write all items or none, each in place of its former edition; returns the last change's number."""
        with self.writing() as connection:
            length = self._settle_length(connection, new)
            former = _delete_editions(connection, [item.id for item in new])
            first = log_changes(connection, "upsert", [(item.id, former.get(item.id)) for item in new])
            editions = list(enumerate(new, first))
            rows = [item_rows.item_record(edition, item, former.get(item.id)) for edition, item in editions]
            connection.execute(insert(items), rows)
            records = chain.from_iterable(item_rows.observation_records(*one) for one in editions)
            connection.execute(insert(observations), list(records))
            values = [one for row in rows for one in item_rows.fact_records(row["edition"], row["payload"])]
            if values:
                connection.execute(insert(facts), values)
            words = [(edition, lexical_index.words_of_item(item)) for edition, item in editions]
            lexical_index.write_words(connection, words)
        self.feature_length = length
        return first + len(new) - 1

    def delete(self, ids: Iterable[str]) -> int:
        """Remove items; returns how many there were."""
        with self.writing() as connection:
            return _delete(connection, sorted(set(ids)))

    def delete_where(self, where: Filter) -> int:
        """Remove the items that a filter lets through; returns how many there were."""
        with self.writing() as connection:
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
        return None if plan is None else IndexPlan(**json.loads(plan))

    def ask_for(self, plan: IndexPlan) -> None:
        """From now on this collection asks for such an index, in every process that opens it."""
        with self.writing() as connection:
            metadata.write_note(connection, PLAN, json.dumps(asdict(plan)))

    def noted(self, key: str) -> str | None:
        """What any process has noted under this key by now, whatever moment this thread is in."""
        with self._database.apart() as connection:
            return metadata.read_note(connection, key)

    def note(self, key: str, change: Callable[[str | None], str]) -> None:
        """Change the note under this key, given what is noted there."""
        with self.writing() as connection:
            metadata.write_note(connection, key, change(metadata.read_note(connection, key)))

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


def database_at(where: Path | str, *, read_only: bool, fresh: bool) -> Database:
    """A file, made if it may be `fresh`, or a PostgreSQL database by its address."""
    if isinstance(where, str):
        from index.store.postgres import Postgres  # its driver is an extra

        return Postgres(where, read_only=read_only)
    if fresh:
        make_folder(where.parent)
    else:
        refuse_missing(where)
    return SQLite(where, read_only=read_only)


def open_blobs(home: Path, bucket: str | None) -> Blobs:
    """The blobs of a collection: in its folder, or in a bucket by its address."""
    if bucket is None:
        return FolderBlobs(home / "blobs")
    from index.store.bucket import BucketBlobs  # its client is an extra

    return BucketBlobs(home, bucket)


def refuse_missing(path: Path) -> None:
    """Raise if there is no store."""
    if not path.is_file():
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
    lexical_index.forget_words(connection, ended)
    return former
