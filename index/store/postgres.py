"""The shared store: PostgreSQL, written by any number of processes.

A writer takes one lock before it reads anything and holds it until its transaction has ended, so changes
become visible in the order of their numbers: no reader meets a gap that is filled later. Readers take no
lock; each sees one version (repeatable read).

All collections of a process share one pool of connections, whatever their schemas. What a database says when
it fails may name hosts, users and schemas: it is logged, and not in the error.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from index.store.database import Database, OutageLog, StoreError
from index.store.schema import tables
from multifold.errors import needs_extra

CONNECTIONS = 16  # at most, in one process
NESTED = 2  # more, for a thread that has one already
NESTING_SHARE = 4  # of so many connections, one thread at a time may have more
MOST_WAITING = 256  # threads that wait for a connection,
WAIT_SECONDS = 10.0  # and for how long
CONNECT_SECONDS = 10  # seconds for the server to answer
ASLEEP = 60  # seconds that a writer may say nothing in the middle of a change, which all others wait for
ALIVE = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}  # seconds; else hours
ALONE = text("SELECT pg_try_advisory_xact_lock(hashtext('multifold ' || :name || ' ' || current_schema()))")
LOCK = text(
    "SELECT set_config('idle_in_transaction_session_timeout', :asleep, true), "
    "pg_advisory_xact_lock(hashtext('multifold ' || current_schema()))"
)
PATH = text("SELECT set_config('search_path', :path, true)")
SIZE = text(
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' "
    "AND relnamespace = current_schema()::regnamespace"
)
PATH_OPTION = re.compile(r"-c\s*search_path=(\S+)")


class StoreBusyError(StoreError):
    """Every connection to the database is in use."""


class ConnectionPool:
    """The connections of this process to one database. Threads beyond their number wait, but not for ever.

    A thread that has a connection may take up to two more. Few threads do at a time, and for these there is a
    reserve: so each gets what it waits for.
    """

    def __init__(self, address: URL, size: int) -> None:
        self.size = size
        self.users = 0
        self.outages = OutageLog("the database")
        nesting = size // NESTING_SHARE
        self._free = threading.Semaphore(size - NESTED * nesting)
        self._reserve = threading.Semaphore(nesting)
        self._waiting = 0
        self._here = threading.local()  # how many connections this thread has
        self.engine = create_engine(
            address.set(drivername="postgresql+psycopg"),
            pool_size=size,
            max_overflow=0,
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": CONNECT_SECONDS,
                "tcp_user_timeout": 1000 * CONNECT_SECONDS,
                **ALIVE,
            },
        )
        event.listen(self.engine, "connect", _prepare)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for this thread alone."""
        held: int = getattr(self._here, "held", 0)
        turns = self._free, self._reserve
        with self._turn(turns[held]) if held < len(turns) else nullcontext():
            self._here.held = held + 1
            try:
                with self.engine.connect() as connection:
                    yield connection
            finally:
                self._here.held = held

    @contextmanager
    def _turn(self, turns: threading.Semaphore) -> Iterator[None]:
        if not turns.acquire(blocking=False) and not self._waited(turns):
            raise StoreBusyError(f"All {self.size} connections to the database are busy: try again.")
        try:
            yield
        finally:
            turns.release()

    def _waited(self, turns: threading.Semaphore) -> bool:
        if self._waiting >= MOST_WAITING:
            return False
        self._waiting += 1  # about: two threads may count as one
        try:
            return turns.acquire(timeout=WAIT_SECONDS)
        finally:
            self._waiting -= 1


_pools: dict[URL, ConnectionPool] = {}
_opening = threading.Lock()
_limit = CONNECTIONS


def limit_connections(count: int) -> None:
    """How many connections this process may have to a database that it opens from now on."""
    global _limit
    _limit = count


class Postgres(Database):
    """One schema of a PostgreSQL database, the first of the search path that the address names."""

    shared = True
    advice = (
        "Is the server there? Then try again: a change that was not acknowledged may have been made, and "
        "making it again does no harm."
    )

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        with needs_extra("cluster"):
            import psycopg
        self.failures = (SQLAlchemyError, psycopg.Error)  # the second by copies of many rows
        self._read_only = read_only
        self._open = True
        self._address, self._path = _split(_address(url))
        with _opening:
            self._pool = _pools.get(self._address) or ConnectionPool(self._address, _limit)
            _pools[self._address] = self._pool
            self._pool.users += 1
        super().__init__("the database", self._pool.outages)

    def unsound(self) -> list[str]:
        """The server looks after its own files."""
        return []

    def size(self) -> int:
        with self.reading() as connection:
            return int(connection.scalar(SIZE) or 0)

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Whether the block is the only one of this name, in all processes; it never waits."""
        with self.apart() as connection:
            yield bool(connection.scalar(ALONE, {"name": name}))

    def close(self) -> None:
        """Leave the pool; the last one closes it."""
        with _opening:
            if self._open:
                self._open = False
                self._pool.users -= 1
                if not self._pool.users:
                    _pools.pop(self._address).engine.dispose()

    def _connected(self) -> AbstractContextManager[Connection]:
        return self._pool.connection()

    @contextmanager
    def _begun(self, connection: Connection, *, writes: bool) -> Iterator[None]:
        isolation = "READ COMMITTED" if writes else "REPEATABLE READ"  # after the lock all must be seen
        connection.execution_options(
            isolation_level=isolation, postgresql_readonly=self._read_only or not writes
        )
        with connection.begin():
            if self._path:  # a pool on the server's side too may give us what served another schema
                connection.execute(PATH, {"path": self._path})
            if writes:
                connection.execute(LOCK, {"asleep": f"{ASLEEP}s"})
            yield

    def _vacuum(self, connection: Connection) -> None:
        """Let the server use the space again, and know how full the tables are."""
        with self.reading() as now:
            schema = now.scalar(text("SELECT current_schema()"))
        connection.execution_options(isolation_level="AUTOCOMMIT")
        for name in tables.tables:
            connection.exec_driver_sql(f'VACUUM ANALYZE "{schema}".{name}')

    def _failure(self, error: Exception) -> str:
        """By the condition's name, if the server gave one."""
        cause = getattr(error, "orig", error)
        code = getattr(cause, "sqlstate", None)
        if code is None:
            return "The database does not answer"
        condition = re.sub(r"(?<!^)(?=[A-Z])", " ", type(cause).__name__).lower()
        return f"The database failed ({condition}, {code})"


def within(url: str, schema: str) -> str:
    """The address of another schema of the same database."""
    address, _ = _split(_address(url))
    others = address.query.get("options", "")
    moved = address.update_query_dict({"options": f"{others} -csearch_path={schema}".strip()})
    return moved.render_as_string(hide_password=False)


def _address(url: str) -> URL:
    try:
        address = make_url(url)
    except ArgumentError as error:
        raise StoreError("This is no address of a database: postgresql://USER@HOST/NAME is.") from error
    if address.get_backend_name() != "postgresql":
        raise StoreError(f"The database must be PostgreSQL, not {address.get_backend_name()}.")
    return address


def _split(address: URL) -> tuple[URL, str | None]:
    """The address of the database, and the search path that its options name, if they do."""
    given = address.query.get("options", "")
    options = given if isinstance(given, str) else " ".join(given)
    paths = PATH_OPTION.findall(options)
    others = " ".join(PATH_OPTION.sub("", options).split())
    bare = address.difference_update_query(["options"])
    return bare.update_query_dict({"options": others}) if others else bare, paths[-1] if paths else None


def _prepare(connection: Any, _: object) -> None:  # noqa: ANN401 (the driver's own)
    connection.execute("SET synchronous_commit TO on")
    for name, seconds in ALIVE.items():  # the server too learns within seconds that a machine is gone
        connection.execute(f"SET tcp_{name} TO {seconds}")
    connection.commit()
