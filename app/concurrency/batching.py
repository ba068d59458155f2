"""Requests of many clients become batches, at no cost to the one that comes alone.

What is asked waits in a bounded queue. Threads take all that waits, up to the most that one batch may hold,
and answer it together: under load batches grow by themselves, and nobody ever waits for a batch to fill.
If a batch fails, each of its requests is tried on its own, so one that is poisoned fails alone.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from app.errors import ApiError

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")
LONGEST_RETRY_SECONDS = 30
SMOOTHING = 0.1
OnBatch: TypeAlias = Callable[[int, float, float], None]  # how many, seconds waited, seconds worked


class QueueFullError(ApiError):
    """The queue is full: come back after so many seconds."""

    def __init__(self, waiting: int, seconds: float) -> None:
        retry = min(LONGEST_RETRY_SECONDS, max(1, math.ceil(seconds)))
        sentence = f"{waiting} requests are waiting already; try again in {retry} s"
        super().__init__(429, "busy", sentence, retry)


class _Waiting(Generic[Asked, Answered]):
    """One request and where its answer goes."""

    def __init__(self, asked: Asked, answer: "asyncio.Future[Answered]") -> None:
        self.asked, self.answer = asked, answer
        self.since = time.perf_counter()


def ignore_batch(_batch: int, _waited: float, _worked: float) -> None:
    """Nobody wants to know."""


class Batcher(Generic[Asked, Answered]):
    """Asked from one event loop, answered by threads. `watch` is told of each batch, from those threads."""

    def __init__(
        self,
        work: Callable[[list[Asked]], Sequence[Answered]],
        *,
        most: int,
        room: int,
        threads: int = 1,
        watch: OnBatch = ignore_batch,
    ) -> None:
        self._work, self._most, self._room, self._watch = work, most, room, watch
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Waiting[Asked, Answered]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._each = 0.0  # seconds that one request takes, lately
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def refuse_if_full(self) -> None:
        """Say so to those who would have to wait behind too many."""
        if len(self._queue) >= self._room:
            raise QueueFullError(len(self._queue), len(self._queue) * self._each)

    async def ask(self, asked: Asked, *, admitted: bool = False) -> Answered:
        """Wait for the answer; whoever stops waiting takes the question back.

        What was `admitted` before, at another queue, is not refused half-way.
        """
        if not admitted:
            self.refuse_if_full()
        job = _Waiting[Asked, Answered](asked, self._loop.create_future())
        with self._changed:
            if self._closing:
                raise QueueFullError(len(self._queue), 1.0)
            self._queue.append(job)
            self._changed.notify()
        try:
            return await job.answer
        except asyncio.CancelledError:
            self._take_back(job)
            raise

    @property
    def waiting(self) -> int:
        """How many wait to be taken up."""
        return len(self._queue)

    @property
    def room(self) -> int:
        """How many may wait."""
        return self._room

    def close(self) -> None:
        """Answer what was accepted, and stop. Call it where the event loop is free to run, or has ended."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _take_back(self, job: _Waiting[Asked, Answered]) -> None:
        with self._changed:
            if job in self._queue:
                self._queue.remove(job)

    def _serve(self) -> None:
        while batch := self._next():
            start = time.perf_counter()
            outcomes = self._outcomes([job.asked for job in batch])
            took = time.perf_counter() - start
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(_deliver, batch, outcomes)
            self._each += SMOOTHING * (took / len(batch) - self._each)
            self._watch(len(batch), start - batch[0].since, took)

    def _next(self) -> list[_Waiting[Asked, Answered]]:
        """What waits, once something does; nothing when it is time to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            return [self._queue.popleft() for _ in range(min(self._most, len(self._queue)))]

    def _outcomes(self, asked: list[Asked]) -> list[Answered | Exception]:
        try:
            answers: list[Answered | Exception] = [*self._work(asked)]
            assert len(answers) == len(asked)
        except Exception as error:  # noqa: BLE001 (whoever asked raises it)
            return [error] if len(asked) == 1 else [self._outcomes([one])[0] for one in asked]
        return answers


def _deliver(batch: Sequence[_Waiting[Asked, Answered]], outcomes: Sequence[Answered | Exception]) -> None:
    for job, outcome in zip(batch, outcomes, strict=True):
        if job.answer.done():
            continue
        if isinstance(outcome, Exception):
            job.answer.set_exception(outcome)
        else:
            job.answer.set_result(outcome)
