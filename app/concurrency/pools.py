"""Thread pools for work that is not batched, each with a bounded queue."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from app.concurrency.batching import OnBatch, QueueFullError, ignore_batch

T = TypeVar("T")


class ThreadPool:
    """A bounded pool; work whose caller was cancelled is dropped, unless it has begun."""

    def __init__(self, name: str, threads: int, room: int, watch: OnBatch = ignore_batch) -> None:
        self._executor, self._watch = ThreadPoolExecutor(threads, name), watch
        self._threads, self.room = threads, room
        self._lock = threading.Lock()
        self._accepted = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Do it in a thread."""
        with self._lock:
            if self.waiting >= self.room:
                raise QueueFullError(self.waiting, 1.0)
            self._accepted += 1
        running = self._executor.submit(self._timed, work, time.perf_counter())
        running.add_done_callback(self._done)
        return await asyncio.wrap_future(running)

    @property
    def waiting(self) -> int:
        return max(0, self._accepted - self._threads)

    def close(self) -> None:
        """Finish what was accepted."""
        self._executor.shutdown()

    def _timed(self, work: Callable[[], T], since: float) -> T:
        start = time.perf_counter()
        try:
            return work()
        finally:
            self._watch(1, start - since, time.perf_counter() - start)

    def _done(self, _: "Future[T]") -> None:
        with self._lock:
            self._accepted -= 1
