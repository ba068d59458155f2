"""Transactions that see one version and commits that survive, and SQLite as the embedded database.

Rows have checksums. An observation has two, so a damaged feature can be made anew from a text or a picture
that is known to be whole. An item has one, and a verdict has one in its query.
"""

import logging
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote
from zlib import crc32

from sqlalchemy import URL, Connection, Table, create_engine, event, insert
from sqlalchemy.exc import SQLAlchemyError

from index.store.folder_locks import ReaderLock, is_read_only
from multifold.errors import MultifoldError

log = logging.getLogger(__name__)


UNSTORABLE = "holds characters that cannot be stored (NUL or half a surrogate pair)"


class StoreError(MultifoldError):
    """The database cannot be read or written; what was acknowledged before is still there."""


Access: TypeAlias = Literal["reading", "writing"]


class OutageLog:
    """Tells the log once that something fails, and once that it works again.

    On a full disk reading works all the time: that is no end of an outage that began with a change.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._failing: set[Access] = set()

    @property
    def away(self) -> bool:
        """Whether it cannot even be read."""
        return "reading" in self._failing

    def failed(self, reason: object, access: Access = "reading") -> None:
        """It failed; only the first time counts."""
        with self._lock:
            first = not self._failing
            self._failing.add(access)
        if first:
            log.warning("%s fails: %s", self._what, " ".join(str(reason).split()))

    def worked(self, access: Access = "reading") -> None:
        if access not in self._failing:
            return
        with self._lock:
            ended = self._failing == {access}
            self._failing.discard(access)
        if ended:
            log.warning("%s works again", self._what)


STATEMENT_ROWS = 16  # rows that are quicker in one statement


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of one table that have all its columns; PostgreSQL copies them, if they are many."""
    if len(rows) <= STATEMENT_ROWS or connection.dialect.name != "postgresql":
        if rows:
            connection.execute(insert(table), rows)
        return
    quote = connection.dialect.identifier_preparer.quote
    names = list(table.columns.keys())
    columns = ", ".join(map(quote, names))
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {quote(table.name)} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row([row[name] for name in names])


def is_storable(text: str) -> bool:
    """Whether every database can hold this text."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


def checksums(*columns: object, feature: object = b"") -> tuple[int, int]:
    """The checksums of a row: of its feature, if it has one, and of its other columns."""
    data = feature if isinstance(feature, bytes) else b""  # damage may have made a text of it
    return crc32(data), crc32("\0".join(map(str, columns)).encode(errors="replace"))


def checksums_of(row: Sequence[Any]) -> tuple[int, int]:
    """The checksums that an observation should have."""
    number, edition, side, kind, ordinal, feature, words, blob, *_ = row
    return checksums(number, edition, side, kind, ordinal, words, blob, feature=feature)


def is_sound(row: Sequence[Any]) -> bool:
    """Whether an observation is what was written."""
    return checksums_of(row) == tuple(row[-2:])


def is_whole(row: Sequence[Any]) -> bool:
    """Whether all but the feature of an observation is what was written."""
    return bool(checksums_of(row)[1] == row[-1])


def is_whole_item(row: Sequence[Any]) -> bool:
    """Whether a row of `items` is what was written."""
    return bool(checksums(*row[:-1])[1] == row[-1])


class Database(ABC):
    """Connections to one database. `shared` ones have writers in other processes too."""

    shared: bool
    advice: str  # what to do when it fails
    failures: tuple[type[Exception], ...] = (SQLAlchemyError,)

    def __init__(self, name: str, outages: OutageLog) -> None:
        self.name = name
        self._outages = outages
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
        with self._errors("reading"), self._connected() as connection, self._begun(connection, writes=False):
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
        with self._errors("writing"), self._connected() as connection, self._begun(connection, writes=True):
            yield connection

    def vacuum(self) -> None:
        """Give the space of what was removed back to the disk."""
        with self._errors("writing"), self._connected() as connection:
            self._vacuum(connection)

    @abstractmethod
    def size(self) -> int:
        """How many bytes it takes."""

    @property
    def is_away(self) -> bool:
        """Whether it has failed, and not worked since."""
        return self._outages.away

    @abstractmethod
    def unsound(self) -> list[str]:
        """What the database finds wrong with itself."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection that is for this alone."""

    @abstractmethod
    def _connected(self) -> AbstractContextManager[Connection]:
        """A connection for this thread alone."""

    @abstractmethod
    @contextmanager
    def _begun(self, connection: Connection, *, writes: bool) -> Iterator[None]:
        yield

    @abstractmethod
    def _vacuum(self, connection: Connection) -> None:
        """Outside of any transaction."""

    @abstractmethod
    def _failure(self, error: Exception) -> str:
        """What has failed, for whoever asked."""

    @contextmanager
    def _errors(self, access: Access) -> Iterator[None]:
        try:
            yield
        except self.failures as error:
            self._outages.failed(getattr(error, "orig", None) or error, access)
            raise StoreError(f"{self._failure(error)}. {self.advice}") from error
        self._outages.worked(access)


PAGE_BYTES = 16_384  # bytes; of SQLite's usual 4,096 a feature of 512 numbers leaves a half empty
BUSY = 10.0  # seconds to wait for a checkpoint of another process
BEGIN_STATEMENT = "begin"  # the statement that a transaction begins with


class SQLite(Database):
    """One file; one process writes to it (see folder_locks.py)."""

    shared = False
    advice = "Nothing was changed; check the disk's space and health, then try again."

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._read_only = read_only
        arguments = {"timeout": BUSY, "check_same_thread": False}
        super().__init__(str(path), OutageLog(f"the store {path}"))
        address = URL.create("sqlite", database=str(path))
        self._held: ReaderLock | None = None
        if read_only and is_read_only(path.parent):
            self._held = ReaderLock(path.parent)
            try:
                address = _address_of_fixed(path)
            except StoreError:
                self._held.release()
                raise
        self._engine = create_engine(address, max_overflow=-1, connect_args=arguments)
        event.listen(self._engine, "connect", self._prepare)
        event.listen(self._engine, "begin", _begin)

    def unsound(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        with self.reading() as connection:
            lines = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(20)")]
            loose = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        problems = [f"The store {self.name}: {line}." for line in lines if line != "ok"]
        return problems + [f"The store {self.name}: a row of {row[0]} belongs to nothing." for row in loose]

    def size(self) -> int:
        path = Path(self.name)
        return sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*"))

    def close(self) -> None:
        self._engine.dispose()
        if self._held is not None:
            self._held.release()

    def _connected(self) -> AbstractContextManager[Connection]:
        return self._engine.connect()

    def _failure(self, error: Exception) -> str:
        return f"The store {self.name} failed: {str(getattr(error, 'orig', None) or error).strip()}"

    @contextmanager
    def _begun(self, connection: Connection, *, writes: bool) -> Iterator[None]:
        connection.execution_options(**{BEGIN_STATEMENT: "BEGIN IMMEDIATE" if writes else "BEGIN"})
        with connection.begin():
            yield

    def _vacuum(self, connection: Connection) -> None:
        """Rewrite the file without its empty pages."""
        connection.execution_options(**{BEGIN_STATEMENT: None})
        connection.exec_driver_sql("VACUUM")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def _prepare(self, connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # transactions begin where we say so
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # of a file that is new
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA query_only = ON" if self._read_only else "PRAGMA journal_mode = WAL")


def _address_of_fixed(path: Path) -> URL:
    """A file that nothing can change; SQLite then needs no file beside it.

    What a log beside it has would be missing.
    """
    log_file = path.with_name(f"{path.name}-wal")
    if log_file.is_file() and log_file.stat().st_size:
        raise StoreError(
            f"{path.parent} cannot be written to, and the last changes of {path.name} are still in "
            f"{log_file.name}. Mount the disk for writing, or copy the folder to one that is."
        )
    query = {"mode": "ro", "immutable": "1", "uri": "true"}
    return URL.create("sqlite", database=f"file:{quote(str(path))}", query=query)


def _begin(connection: Connection) -> None:
    statement = connection.get_execution_options()[BEGIN_STATEMENT]
    if statement is not None:
        connection.exec_driver_sql(statement)
