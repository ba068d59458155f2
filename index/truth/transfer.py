"""A store copied row by row into another database, through the one schema that they share."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from index.truth.mark import KEY as MARK
from index.truth.schema import meta, tables
from index.truth.stamp import SESSION
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, create_engine, insert, select
    from sqlalchemy.exc import SQLAlchemyError

ROWS = 1_000  # held at once


class CopyError(MultifoldError):
    """A copy that could not be made; the store is as it was."""


def copy(source: Connection, target: Connection, told: Callable[[int], object] = lambda _: None) -> None:
    """Fill empty tables; `told` hears of rows as they are written.

    The session stays behind, and so does what a cluster holds of this store.
    """
    for table in tables.sorted_tables:
        rows = select(table)
        if table is meta:
            rows = rows.where(meta.c.key.not_in([SESSION, MARK]))
        found = source.execute(rows, execution_options={"yield_per": ROWS})
        for some in found.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in some])
            told(len(some))


def copy_to_file(source: Connection, path: Path) -> None:
    """A new SQLite file with all that a store holds; not durable, for whoever reads it at once."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path)
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        return connection

    engine = create_engine("sqlite://", creator=connect)
    try:
        with engine.begin() as target:
            tables.create_all(target)
            copy(source, target)
    except SQLAlchemyError as error:
        reason = getattr(error, "orig", None) or error
        raise CopyError(f"The store cannot be copied to {path.parent}: {reason}.") from error
    finally:
        engine.dispose()
