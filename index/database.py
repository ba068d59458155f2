"""The store's database: SQLite with a write-ahead log, where a commit that returned survives a power cut."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, create_engine, event
    from sqlalchemy.exc import SQLAlchemyError

BUSY = 10.0  # seconds to wait for a checkpoint of another process
WRITES, BARE = "writes", "bare"  # how a transaction begins; some statements stand outside of any


class StoreError(MultifoldError):
    """The database cannot be read or written; what was acknowledged before is still there."""


class Database:
    """Connections to one SQLite file. Each transaction sees one version of it."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._here = threading.local()  # the reading transaction that this thread is in
        self._read_only = read_only
        arguments = {"timeout": BUSY, "check_same_thread": False}
        self._engine = create_engine(f"sqlite:///{path}", max_overflow=-1, connect_args=arguments)
        event.listen(self._engine, "connect", self._prepare)
        event.listen(self._engine, "begin", _begin)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads: all its queries, and all inside the block, see the same version."""
        outer: Connection | None = getattr(self._here, "connection", None)
        if outer is not None:
            yield outer
            return
        with self._told(), self._engine.connect() as connection, connection.begin():
            self._here.connection = connection
            try:
                yield connection
            finally:
                self._here.connection = None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is durable once the block has ended, and leaves no trace if it raises."""
        with self._told(), self._engine.connect() as connection:
            connection.execution_options(**{WRITES: True})
            with connection.begin():
                yield connection

    def vacuum(self) -> None:
        """Rewrite the file without its empty pages."""
        with self._told(), self._engine.connect() as connection:
            connection.execution_options(**{BARE: True})
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def unsound(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        with self.reading() as connection:
            told = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(20)")]
            loose = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        found = [f"The store {self._path}: {line}." for line in told if line != "ok"]
        return found + [f"The store {self._path}: a row of {row[0]} belongs to nothing." for row in loose]

    def close(self) -> None:
        """Close every connection; SQLite folds its log into the file with the last one."""
        self._engine.dispose()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            reason = getattr(error, "orig", None) or error
            raise StoreError(
                f"The store {self._path} failed: {reason}. Nothing was changed; "
                "check the disk's space and health, then try again."
            ) from error

    def _prepare(self, connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # transactions begin where we say so
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA query_only = ON" if self._read_only else "PRAGMA journal_mode = WAL")


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get(BARE, False):
        return
    writes = options.get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
