"""The shared store: PostgreSQL, written by any number of processes.

A writer takes one lock before it reads anything and holds it until its transaction has ended, so changes
become visible in the order of their numbers: no reader meets a gap that is filled later. Readers take no
lock; each sees one version (repeatable read).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from index.store.database import Database, StoreError
from index.store.lexical_index import TABLE
from index.store.schema import tables
from multifold.errors import needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, create_engine, event, text
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError

with needs_extra("cluster"):
    import psycopg

CONNECTIONS = 16  # at most, in one process
CONNECT_SECONDS = 10  # seconds for the server to answer
ASLEEP = 60  # seconds that a writer may say nothing in the middle of a change, which all others wait for
ALIVE = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}  # seconds; else hours
ALONE = text("SELECT pg_try_advisory_xact_lock(hashtext('multifold ' || :name || ' ' || current_schema()))")
LOCK = text(
    "SELECT set_config('idle_in_transaction_session_timeout', :asleep, true), "
    "pg_advisory_xact_lock(hashtext('multifold ' || current_schema()))"
)


class Postgres(Database):
    """One schema of a PostgreSQL database, the first of the search path that the address names."""

    shared = True
    advice = (
        "Is the server there? Then try again: a change that was not acknowledged may have been made, and "
        "making it again does no harm."
    )

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self._read_only = read_only
        address = _address(url)
        super().__init__(
            address.render_as_string(hide_password=True),
            create_engine(
                address.set(drivername="postgresql+psycopg"),
                pool_size=CONNECTIONS,
                max_overflow=0,
                pool_pre_ping=True,
                connect_args={
                    "connect_timeout": CONNECT_SECONDS,
                    "tcp_user_timeout": 1000 * CONNECT_SECONDS,
                    **ALIVE,
                },
            ),
        )
        event.listen(self._engine, "connect", _prepare)

    def unsound(self) -> list[str]:
        """The server looks after its own files."""
        return []

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Whether the block is the only one of this name, in all processes; it never waits."""
        with self.apart() as connection:
            yield bool(connection.scalar(ALONE, {"name": name}))

    @contextmanager
    def _begun(self, connection: Connection, *, writes: bool) -> Iterator[None]:
        isolation = "READ COMMITTED" if writes else "REPEATABLE READ"  # after the lock all must be seen
        connection.execution_options(
            isolation_level=isolation, postgresql_readonly=self._read_only or not writes
        )
        with connection.begin():
            if writes:
                connection.execute(LOCK, {"asleep": f"{ASLEEP}s"})
            yield

    def _vacuum(self, connection: Connection) -> None:
        """Let the server use the space again, and know how full the tables are."""
        connection.execution_options(isolation_level="AUTOCOMMIT")
        for name in (*tables.tables, TABLE):
            connection.exec_driver_sql(f"VACUUM ANALYZE {name}")


def within(url: str, schema: str) -> str:
    """The address of another schema of the same database."""
    address = _address(url)
    former = address.query.get("options", "")
    options = [former] if isinstance(former, str) else [*former]
    moved = address.update_query_dict({"options": " ".join([*options, f"-csearch_path={schema}"]).strip()})
    return moved.render_as_string(hide_password=False)


def _address(url: str) -> URL:
    try:
        address = make_url(url)
    except ArgumentError as error:
        raise StoreError(f"{url!r} is no address of a database: postgresql://USER@HOST/NAME is.") from error
    if address.get_backend_name() != "postgresql":
        raise StoreError(f"The database must be PostgreSQL, not {address.get_backend_name()}.")
    return address


def _prepare(connection: psycopg.Connection, _: object) -> None:
    connection.execute("SET synchronous_commit TO on")
    for name, seconds in ALIVE.items():  # the server too learns within seconds that a machine is gone
        connection.execute(f"SET tcp_{name} TO {seconds}")
    connection.commit()
