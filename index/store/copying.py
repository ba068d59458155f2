"""Copies of a store in another database, through the one schema that they share."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from index.cluster.cluster_engines import MARK_KEY as MARK
from index.store.database import PAGE
from index.store.metadata import SESSION
from index.store.schema import meta, tables
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, MetaData, Select, Table, create_engine, insert, select
    from sqlalchemy.exc import SQLAlchemyError

ROWS = 1_000  # held at once
FORMER = "former"  # what SQLite calls the file that is copied


class CopyError(MultifoldError):
    """A copy that could not be made; the store is as it was."""


def copy_tables(
    source: Connection, target: Connection, told: Callable[[int], object] = lambda _: None
) -> None:
    """Fill empty tables; `told` hears of rows as they are written."""
    for table in tables.sorted_tables:
        found = source.execute(_rows(table), execution_options={"yield_per": ROWS})
        for some in found.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in some])
            told(len(some))


@contextmanager
def sqlite_copy(source: Connection, path: Path) -> Iterator[Connection]:
    """A new SQLite file with all that a store holds; not durable, for whoever reads it at once.

    SQLite copies from file to file, as the last change left it: what the copy holds is asked of the copy.
    """
    former = source.engine.url.database if source.dialect.name == "sqlite" else None

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path)
        connection.executescript(
            f"PRAGMA page_size = {PAGE}; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF"
        )
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
    """All but the session, and what a cluster holds of this store."""
    rows = select(table)
    return rows.where(table.c.key.not_in([SESSION, MARK])) if table.name == meta.name else rows
