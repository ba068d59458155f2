"""The embedded store: SQLite with a write-ahead log, where a commit that returned survives a power cut."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from index.truth.database import Database
from multifold.errors import needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, create_engine, event

PAGE = 16_384  # bytes; of SQLite's usual 4,096 a feature of 512 numbers leaves a half empty
BUSY = 10.0  # seconds to wait for a checkpoint of another process
BEGIN = "begin"  # the statement that a transaction begins with


class SQLite(Database):
    """One file; one process writes to it (see lock.py)."""

    shared = False
    advice = "Nothing was changed; check the disk's space and health, then try again."

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._read_only = read_only
        arguments = {"timeout": BUSY, "check_same_thread": False}
        super().__init__(
            str(path), create_engine(f"sqlite:///{path}", max_overflow=-1, connect_args=arguments)
        )
        event.listen(self._engine, "connect", self._prepare)
        event.listen(self._engine, "begin", _begin)

    def unsound(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        with self.reading() as connection:
            told = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(20)")]
            loose = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        found = [f"The store {self.name}: {line}." for line in told if line != "ok"]
        return found + [f"The store {self.name}: a row of {row[0]} belongs to nothing." for row in loose]

    @contextmanager
    def _begun(self, connection: Connection, *, writes: bool) -> Iterator[None]:
        connection.execution_options(**{BEGIN: "BEGIN IMMEDIATE" if writes else "BEGIN"})
        with connection.begin():
            yield

    def _vacuum(self, connection: Connection) -> None:
        """Rewrite the file without its empty pages."""
        connection.execution_options(**{BEGIN: None})
        connection.exec_driver_sql("VACUUM")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def _prepare(self, connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # transactions begin where we say so
        connection.execute(f"PRAGMA page_size = {PAGE}")  # of a file that is new
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA query_only = ON" if self._read_only else "PRAGMA journal_mode = WAL")


def _begin(connection: Connection) -> None:
    statement = connection.get_execution_options()[BEGIN]
    if statement is not None:
        connection.exec_driver_sql(statement)
