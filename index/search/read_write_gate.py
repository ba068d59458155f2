"""A lock that searches share and a change has alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReadWriteGate:
    """A readers-writer lock where a waiting writer goes first. Not reentrant."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers = 0
        self._writers = 0  # waiting, or in
        self._occupied = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock together with other readers."""
        with self._condition:
            self._condition.wait_for(lambda: not self._writers)
            self._readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._readers -= 1
                self._condition.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock alone."""
        with self._condition:
            self._writers += 1
            self._condition.wait_for(lambda: not self._readers and not self._occupied)
            self._occupied = True
        try:
            yield
        finally:
            with self._condition:
                self._writers -= 1
                self._occupied = False
                self._condition.notify_all()
