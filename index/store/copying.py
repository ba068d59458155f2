"""Copies of a store in another database, through the one schema that they share."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, MetaData, Select, Table, create_engine, insert, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from index.store.database import PAGE_BYTES, StoreError
from index.store.metadata import COLLECTION, FEED_MARK, PICTURES, SESSION, last_change
from index.store.schema import meta, tables
from index.store.store import Store, database_at

HELD_ROWS = 1_000  # held at once
FORMER = "former"  # what SQLite calls the file that is copied


class CopyError(StoreError):
    """A copy that could not be made; the store is as it was."""


def copy_store(store: Store, where: str, on_progress: Callable[[int], object]) -> int:
    """Copy all of it into an empty database, in one transaction; returns the version of the copy."""
    copy = closing(database_at(where, read_only=False, fresh=True))
    with copy as target, store.moment() as source, target.writing() as connection:
        if inspect(connection).has_table(meta.name):
            raise StoreError(f"{target.name} holds a collection already: choose an empty schema.")
        tables.create_all(connection)
        copy_tables(source, connection, on_progress)
        return last_change(source)


def copy_tables(
    source: Connection, target: Connection, on_progress: Callable[[int], object] = lambda _: None
) -> None:
    """Fill empty tables; `on_progress` is called with the number of rows that were written."""
    for table in tables.sorted_tables:
        rows = source.execute(_rows(table), execution_options={"yield_per": HELD_ROWS})
        for some in rows.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in some])
            on_progress(len(some))


@contextmanager
def sqlite_copy(source: Connection, path: Path) -> Iterator[Connection]:
    """A new SQLite file with all that a store holds; not durable, to be read at once.

    SQLite copies from file to file, as the last change left it: what the copy holds is asked of the copy.
    """
    former = source.engine.url.database if source.dialect.name == "sqlite" else None

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path)
        for pragma in (f"page_size = {PAGE_BYTES}", "journal_mode = OFF", "synchronous = OFF"):
            connection.execute(f"PRAGMA {pragma}")
        if former is not None:
            connection.execute(f"ATTACH ? AS {FORMER}", [former])
        return connection

    engine = create_engine("sqlite://", creator=connect)
    try:
        with engine.begin() as target:
            tables.create_all(target)
            if former is None:
                copy_tables(source, target)
            else:
                _copy_within(target)
            yield target
    except SQLAlchemyError as error:
        reason = getattr(error, "orig", None) or error
        raise CopyError(f"The store cannot be copied to {path.parent}: {reason}.") from error
    finally:
        engine.dispose()


def _copy_within(target: Connection) -> None:
    """From the attached file, in one transaction."""
    for table in tables.sorted_tables:
        former = table.to_metadata(MetaData(), schema=FORMER)
        target.execute(insert(table).from_select(table.columns.keys(), _rows(former)))


def _rows(table: Table) -> Select[Any]:
    """All but its own name, its session, what a cluster holds of this store, and where its pictures are."""
    own = [COLLECTION, SESSION, FEED_MARK, PICTURES]
    rows = select(table)
    return rows.where(table.c.key.not_in(own)) if table.name == meta.name else rows
