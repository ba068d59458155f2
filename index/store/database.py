"""Transactions that see one version and commits that survive, and SQLite as the embedded database."""

import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, Engine, create_engine, event
    from sqlalchemy.exc import SQLAlchemyError


class StoreError(MultifoldError):
    """The database cannot be read or written; what was acknowledged before is still there."""


class Database(ABC):
    """Connections to one database. `shared` ones have writers in other processes too."""

    shared: bool
    advice: str  # what to do when it fails

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = name
        self._engine = engine
        self._here = threading.local()  # the reading transaction that this thread is in

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads: all its queries, and all inside the block, see the same version."""
        outer: Connection | None = getattr(self._here, "connection", None)
        if outer is not None:
            yield outer
            return
        with self.apart() as connection:
            self._here.connection = connection
            try:
                yield connection
            finally:
                self._here.connection = None

    @contextmanager
    def apart(self) -> Iterator[Connection]:
        """A reading transaction that sees what is newest, whatever this thread reads already."""
        with self._errors(), self._engine.connect() as connection, self._begun(connection, writes=False):
            yield connection

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:  # noqa: ARG002 (one process writes)
        """Whether the block is the only one of this name, in all processes; it never waits."""
        yield True

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is durable once the block has ended, and leaves no trace if it raises.

        It has all of the store to itself: no other writes begin before it has ended.
        """
        with self._errors(), self._engine.connect() as connection, self._begun(connection, writes=True):
            yield connection

    def vacuum(self) -> None:
        """Give the space of what was removed back to the disk."""
        with self._errors(), self._engine.connect() as connection:
            self._vacuum(connection)

    @abstractmethod
    def unsound(self) -> list[str]:
        """What the database finds wrong with itself."""

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @abstractmethod
    @contextmanager
    def _begun(self, connection: Connection, *, writes: bool) -> Iterator[None]:
        """A transaction of this kind."""
        yield

    @abstractmethod
    def _vacuum(self, connection: Connection) -> None:
        """Outside of any transaction."""

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip()
            raise StoreError(f"The store {self.name} failed: {reason}. {self.advice}") from error


PAGE = 16_384  # bytes; of SQLite's usual 4,096 a feature of 512 numbers leaves a half empty
BUSY = 10.0  # seconds to wait for a checkpoint of another process
BEGIN = "begin"  # the statement that a transaction begins with


class SQLite(Database):
    """One file; one process writes to it (see folder_locks.py)."""

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
            lines = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(20)")]
            loose = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        problems = [f"The store {self.name}: {line}." for line in lines if line != "ok"]
        return problems + [f"The store {self.name}: a row of {row[0]} belongs to nothing." for row in loose]

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
