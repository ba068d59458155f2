"""The store of a collection: items, observations with features, and the log of every change, in one
database.

The change that writes an item numbers its edition (see rows.py and changelog.py).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from index.contracts import IndexPlan
from index.store import browse, copying, feedback, filters, lexical_index, metadata
from index.store import item_rows as codec
from index.store.database import Database, SQLite, StoreError
from index.store.feedback import Judgement
from index.store.filters import Filter
from index.store.item_rows import ItemSummary, TableRow
from index.store.metadata import ChangesSince, last_change, log_changes, prune_log, pruned_until
from index.store.schema import items, meta, observations, tables
from multifold.durable import make_folder, sync_folder
from multifold.errors import needs_extra
from multifold.types import KIND_OF, Item, Kind, Observation

with needs_extra("serve"):
    from sqlalchemy import (
        BindParameter,
        Connection,
        Executable,
        bindparam,
        delete,
        func,
        insert,
        inspect,
        select,
    )

PLAN, LENGTH = "plan", "feature_length"
MANY = 5_000  # values in one statement

VALUES: BindParameter[Any] = bindparam("values", expanding=True)
ITEMS_BY_ID = select(items).where(items.c.id.in_(VALUES))
LIVING = select(items.c.edition).where(items.c.edition.in_(VALUES))
CARDS_BY_EDITION = select(items.c.edition, items.c.id, items.c.size, items.c.payload).where(
    items.c.edition.in_(VALUES)
)
OBSERVATIONS_BY_EDITION = (
    select(observations).where(observations.c.edition.in_(VALUES)).order_by(observations.c.row)
)
SEEN = observations.c
OBSERVATIONS_BY_ROW = select(SEEN.row, SEEN.kind, SEEN.ordinal, SEEN.feature, SEEN.text, SEEN.blob).where(
    SEEN.row.in_(VALUES)
)
FORGET = delete(items).where(items.c.edition.in_(VALUES))  # its observations go with it


class Store:
    """Reads may come from any thread; one thread of one process writes at a time (the collection's part).

    `session` names the writes of this process, `former` those before; derived files say which they have seen.
    """

    def __init__(self, where: Path | str, vector_id: str | None, *, read_only: bool = False) -> None:
        """A file, or the address of a PostgreSQL database.

        Without a `vector_id` a store that is there is opened for upkeep, whatever its encoder: its items stay
        as they are, and so does its session.
        """
        fresh = not read_only and vector_id is not None
        self._database = database_at(where, read_only=read_only, fresh=fresh)
        try:
            if not read_only:
                with self._database.writing() as connection:
                    metadata.create_or_migrate(connection, vector_id)
                    lexical_index.ensure_index(connection)
            if fresh and isinstance(where, Path):
                sync_folder(where.parent)
            with self._database.reading() as connection:
                if not inspect(connection).has_table(meta.name):
                    raise StoreError(f"There is no collection in {self._database.name}.")
                found = metadata.check_stamp(connection, self._database.name, vector_id)
                self.vector_id, self.feature_length = found.vector_id, found.feature_length
                self.former = self.session = metadata.read_session(connection)
                self.has_words = lexical_index.has_index(connection)
            if fresh and not self._database.shared:
                with self._database.writing() as connection:
                    self.session = metadata.begin_session(connection)
        except BaseException:
            self.close()
            raise

    def version(self) -> int:
        """The number of the last change."""
        with self._database.reading() as connection:
            return last_change(connection)

    def observations(self) -> dict[Kind, int]:
        """How many observations of each kind there are."""
        counted = select(observations.c.kind, func.count()).group_by(observations.c.kind)
        with self._database.reading() as connection:
            found = {row[0]: row[1] for row in connection.execute(counted)}
        return {kind: found.get(kind, 0) for kind in KIND_OF.values()}

    def get(self, id: str) -> Item | None:  # noqa: A002 (what an item's name is called here)
        """One item with its observations, in the order they were given."""
        with self._database.reading() as connection:
            for item in _each(connection, ITEMS_BY_ID, [id] if codec.is_storable(id) else []):
                return codec.item_from_rows(
                    item, _each(connection, OBSERVATIONS_BY_EDITION, [item["edition"]])
                )
        return None

    def living(self, editions: Sequence[int]) -> set[int]:
        """Those of the editions that were not replaced or deleted."""
        with self._database.reading() as connection:
            return {row["edition"] for row in _each(connection, LIVING, editions)}

    def cards(self, editions: Sequence[int]) -> dict[int, ItemSummary]:
        """What these editions are called and hold; those replaced or deleted are left out."""
        with self._database.reading() as connection:
            return {
                row[0]: codec.summary_from_columns(*row[1:])
                for row in _rows(connection, CARDS_BY_EDITION, editions)
            }

    def observations_at(self, rows: Sequence[int]) -> dict[int, Observation]:
        """The observations of these rows; those replaced or deleted are left out."""
        with self._database.reading() as connection:
            found = _rows(connection, OBSERVATIONS_BY_ROW, rows)
            return {row[0]: codec.observation_from_columns(*row[1:]) for row in found}

    def upsert(self, new: Sequence[Item]) -> int:
        """Write all items or none, each in place of its former edition; returns the last change's number."""
        with self._database.writing() as connection:
            length = self._settle_length(connection, new)
            former = _forget(connection, [item.id for item in new])
            first = log_changes(connection, "upsert", [(item.id, former.get(item.id)) for item in new])
            editions = list(enumerate(new, first))
            item_rows = [codec.item_record(edition, item, former.get(item.id)) for edition, item in editions]
            connection.execute(insert(items), item_rows)
            seen = chain.from_iterable(codec.observation_records(edition, item) for edition, item in editions)
            connection.execute(insert(observations), list(seen))
            filters.write_facts(connection, [(row["edition"], row["payload"]) for row in item_rows])
            lexical_index.write_words(
                connection, [(edition, lexical_index.words_of_item(item)) for edition, item in editions]
            )
        self.feature_length = length
        return first + len(new) - 1

    def delete(self, ids: Iterable[str]) -> int:
        """Remove items; returns how many there were."""
        with self._database.writing() as connection:
            return _delete(connection, sorted(set(ids)))

    def delete_where(self, where: Filter) -> int:
        """Remove the items that a filter lets through; returns how many there were."""
        with self._database.writing() as connection:
            return _delete(connection, browse.list_ids(connection, where))

    def judge(self, judgement: Judgement) -> None:
        """Keep a verdict."""
        with self._database.writing() as connection:
            feedback.write_judgement(connection, judgement)

    def withdraw(self, judgement: str) -> int:
        """Forget a verdict; 1 if it was there."""
        with self._database.writing() as connection:
            return feedback.remove_judgement(connection, judgement)

    def reaches(self, version: int) -> bool:
        """Whether the log tells all that has happened after a version."""
        with self._database.reading() as connection:
            return pruned_until(connection) <= version <= last_change(connection)

    def prune(self, kept: int) -> int:
        """Forget all changes but the last `kept`; returns how many were forgotten."""
        with self._database.writing() as connection:
            return prune_log(connection, kept)

    def plan(self) -> IndexPlan | None:
        """The index that this collection asks for, if it asks."""
        with self._database.reading() as connection:
            found = metadata.read_note(connection, PLAN)
        return None if found is None else IndexPlan(**json.loads(found))

    def ask_for(self, plan: IndexPlan) -> None:
        """From now on this collection asks for such an index, whoever opens it."""
        with self._database.writing() as connection:
            metadata.write_note(connection, PLAN, json.dumps(asdict(plan)))

    def noted(self, key: str) -> str | None:
        """What somebody has noted under this key by now, whatever moment this thread is in."""
        with self._database.apart() as connection:
            return metadata.read_note(connection, key)

    def note(self, key: str, said: Callable[[str | None], str]) -> None:
        """Note something else under this key, given what is noted there."""
        with self._database.writing() as connection:
            metadata.write_note(connection, key, said(metadata.read_note(connection, key)))

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Whether the block is the only one of this name, in all processes that write here."""
        with self._database.alone(name) as mine:
            yield mine

    def move(self, where: str, told: Callable[[int], object]) -> int:
        """Copy all of it into an empty database, in one transaction; returns the version of the copy."""
        target = database_at(where, read_only=False, fresh=True)
        try:
            with self._database.reading() as source, target.writing() as connection:
                if inspect(connection).has_table(meta.name):
                    raise StoreError(f"{target.name} holds a collection already: choose an empty schema.")
                tables.create_all(connection)
                copying.copy_tables(source, connection, told)
                return last_change(source)
        finally:
            target.close()

    def vacuum(self) -> None:
        """Give the space of what was removed back to the disk."""
        self._database.vacuum()

    def unsound(self) -> list[str]:
        """What the database finds wrong with itself."""
        return self._database.unsound()

    @contextmanager
    def moment(self) -> Iterator[Connection]:
        """All that this thread reads inside the block is of one version."""
        with self._database.reading() as connection:
            yield connection

    @contextmanager
    def since(self, version: int, batch: int) -> Iterator[ChangesSince]:
        """What has happened after a version, as one consistent view."""
        with self._database.reading() as connection:
            yield ChangesSince(connection, version, batch)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _settle_length(self, connection: Connection, new: Sequence[Item]) -> int:
        """The first items decide how long features are in this collection."""
        if self.feature_length is not None:
            return self.feature_length
        length = len(new[0].observations[0].feature)
        known = metadata.read_note(connection, LENGTH)
        if known is None:
            metadata.write_note(connection, LENGTH, str(length))
        elif known != str(length):  # another process was first
            self.feature_length = int(known)
            raise StoreError(f"The features of this collection have {known} numbers, not {length}.")
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


def refuse_missing(path: Path) -> None:
    """Raise if there is no store."""
    if not path.is_file():
        raise StoreError(f"There is no collection in {path.parent}: open it for writing to create one.")


def _delete(connection: Connection, ids: Sequence[str]) -> int:
    former = _forget(connection, ids)
    if former:
        log_changes(connection, "delete", former.items())
    return len(former)


def _forget(connection: Connection, ids: Sequence[str]) -> dict[str, TableRow]:
    """Delete the present editions of those items that are there; returns their former rows."""
    known = list(filter(codec.is_storable, ids))
    former = {row["id"]: row for row in _each(connection, ITEMS_BY_ID, known)}
    gone = [row["edition"] for row in former.values()]
    for some in _chunks(gone):
        connection.execute(FORGET, {VALUES.key: some})
    lexical_index.forget_words(connection, gone)
    return former


def _rows(connection: Connection, statement: Executable, values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for some in _chunks(values):
        yield from connection.execute(statement, {VALUES.key: some}).all()  # one by one takes twice as long


def _each(connection: Connection, statement: Executable, values: Sequence[Any]) -> Iterator[TableRow]:
    for some in _chunks(values):
        yield from connection.execute(statement, {VALUES.key: some}).mappings()


def _chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), MANY):
        yield values[start : start + MANY]
