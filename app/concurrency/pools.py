"""Thread pools for work that is not batched, each with a bounded queue."""

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from app.concurrency.batching import KeyName, OnBatch, QueueFullError, ignore_batch
from app.operations.logs import key_name
from renderers.lanes import RenderLane, SlowMeshError

T = TypeVar("T")
LARGE_MESH = 1 << 20  # bytes of a mesh that is taken for slow
SECONDS_A_BYTE = 5 / (1 << 20)  # that a mesh lets others pass


@dataclass(order=True)
class PoolTurn:
    """A piece of work, by when it is due; of two at once the one that came first."""

    due: float
    number: int
    running: Future[Any] = field(compare=False)
    work: Callable[[], Any] = field(compare=False)


class ThreadPool:
    """A bounded pool; work whose caller was cancelled is dropped, unless it has begun."""

    def __init__(self, name: str, threads: int, room: int, watch: OnBatch = ignore_batch) -> None:
        self._executor, self._watch = ThreadPoolExecutor(threads, name), watch
        self._threads, self.room = threads, room
        self._lock, self._numbers = threading.Lock(), itertools.count()
        self._pending: list[PoolTurn] = []  # a heap
        self._accepted = 0

    async def run(self, work: Callable[[], T], delay: float = 0.0) -> T:
        """Do it in turn; what came up to `delay` seconds later goes first."""
        running, since = Future[T](), time.perf_counter()
        running.add_done_callback(self._done)
        with self._lock:
            if self.waiting >= self.room:
                raise QueueFullError(self.waiting, 1.0)
            self._accepted += 1
            timed = partial(self._timed, work, since, key_name.get())
            heapq.heappush(self._pending, PoolTurn(since + delay, next(self._numbers), running, timed))
        self._executor.submit(self._run_next)
        return await asyncio.wrap_future(running)

    @property
    def waiting(self) -> int:
        return max(0, self._accepted - self._threads)

    def close(self) -> None:
        self._executor.shutdown()

    def _run_next(self) -> None:
        with self._lock:
            turn = heapq.heappop(self._pending)
        if turn.running.set_running_or_notify_cancel():
            try:
                turn.running.set_result(turn.work())
            except BaseException as error:  # noqa: BLE001 (it is the caller's)
                turn.running.set_exception(error)

    def _timed(self, work: Callable[[], T], since: float, key: KeyName) -> T:
        start = time.perf_counter()
        try:
            return work()
        finally:
            self._watch([key], start - since, time.perf_counter() - start)

    def _done(self, _: "Future[T]") -> None:
        with self._lock:
            self._accepted -= 1


class RenderPool:
    """Draws meshes for requests, small ones first; large and slow ones leave one worker to the others."""

    def __init__(self, workers: int, room: int, watch: OnBatch = ignore_batch) -> None:
        self._quick = ThreadPool("draw", workers, room, watch)
        self._slow = ThreadPool("slow", max(1, workers - 1), room, watch)

    async def run(self, draw: Callable[[RenderLane], T], size: int = 0) -> T:
        """Draw a mesh; its size in bytes says how long it may take."""
        delay = size * SECONDS_A_BYTE
        if size > LARGE_MESH:
            return await self._slow.run(lambda: draw("slow"), delay)
        try:
            return await self._quick.run(lambda: draw("quick"), delay)
        except SlowMeshError:
            return await self._slow.run(lambda: draw("slow"), delay)

    @property
    def waiting(self) -> int:
        return self._quick.waiting + self._slow.waiting

    def close(self) -> None:
        self._quick.close()
        self._slow.close()
