"""What the store asks of its database: transactions that see one version, and commits that survive."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, Engine
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
        with self._told(), self._connected() as connection, self._begun(connection, writes=False):
            self._here.connection = connection
            try:
                yield connection
            finally:
                self._here.connection = None

    @contextmanager
    def apart(self) -> Iterator[Connection]:
        """A reading transaction that sees what is newest, whatever this thread reads already."""
        with self._told(), self._connected() as connection, self._begun(connection, writes=False):
            yield connection

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:  # noqa: ARG002 (one process writes)
        """Whether the block is the only one of this name, in all processes; nobody waits."""
        yield True

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is durable once the block has ended, and leaves no trace if it raises.

        It has all of the store to itself: no other writes begin before it has ended.
        """
        with self._told(), self._connected() as connection, self._begun(connection, writes=True):
            yield connection

    def vacuum(self) -> None:
        """Give the space of what was removed back to the disk."""
        with self._told(), self._connected() as connection:
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
    def _connected(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip()
            raise StoreError(f"The store {self.name} failed: {reason}. {self.advice}") from error
