"""Requests of many clients become batches, at no cost to the one that comes alone.

Requests wait in a bounded queue, in which one may let others of its client pass; clients are served in turns.
Threads take all that wait, up to the size of a batch, and answer them together: under load batches grow by
themselves, and no request waits for a batch to fill. If a batch fails, each of its requests is tried on its
own, so a bad one fails alone.

What would wait longer than the queue's `patience` is refused when it comes, as what finds it full is.
"""

import asyncio
import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from app.concurrency.clients import client, key_name
from app.concurrency.turns import TurnQueue, WaitingTurn
from app.errors import ApiError

Request = TypeVar("Request")
Answer = TypeVar("Answer")
LONGEST_RETRY_SECONDS = 30
LONGEST_RETRY = 5.0  # seconds, by how long requests take lately
SMOOTHING = 0.1
UNIT_SECONDS = 0.02  # for a batch of what others wait for meanwhile
CLIENTS_ROOM = 4  # times as much as one client has, for all
KeyName: TypeAlias = str | None
OnBatch: TypeAlias = Callable[[Sequence[KeyName], float, float], None]  # whose; seconds waited, worked


class QueueFullError(ApiError):
    """The queue is full; `retry_after` says when to try again."""

    def __init__(self, waiting: int, seconds: float) -> None:
        retry = min(LONGEST_RETRY_SECONDS, max(1, math.ceil(seconds)))
        sentence = f"{waiting} requests are waiting already; try again in {retry} s"
        super().__init__(429, "busy", sentence, retry)


@dataclass(frozen=True)
class _Waiting(Generic[Request, Answer]):
    """One request and the future of its answer."""

    request: Request
    answer: "asyncio.Future[Answer]"
    since: float
    key: KeyName


def same_cost(_request: object) -> float:
    """For requests that cost about the same."""
    return 1.0


def ignore_batch(_keys: Sequence[KeyName], _waited: float, _worked: float) -> None:
    """For callers that measure nothing."""


class Batcher(Generic[Request, Answer]):
    """Requests of one event loop, answered by threads, which call `watch` after each batch.

    What is answered together costs `most` at most and takes `unit_seconds` at most, as far as can be told,
    but for one request that takes more.
    """

    def __init__(
        self,
        work: Callable[[list[Request]], Sequence[Answer | Exception]],
        *,
        most: int,
        room: int,
        threads: int = 1,
        watch: OnBatch = ignore_batch,
        patience: float = LONGEST_RETRY,
        cost: Callable[[Request], float] = same_cost,
        unit_seconds: float = math.inf,
    ) -> None:
        self._work = work
        self._cost = cost
        self._unit_seconds = unit_seconds
        self._most = most
        self._room = room
        self._watch = watch
        self._patience = patience
        self._queue: TurnQueue[_Waiting[Request, Answer]] = TurnQueue()
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closing = False
        self._each = 0.0  # seconds that a cost of one takes, lately
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def refuse_if_full(self) -> None:
        """Refuse a request before any work is done for it."""
        name = client.get()
        with self._changed:
            own = self._queue.length(name)
            waiting = own or len(self._queue)
            full = own >= self._room or self._queue.total_length(self._room) >= CLIENTS_ROOM * self._room
            wait = self._queue.cost_before(name) * self._each / len(self._threads)
        if full or wait > self._patience:
            raise QueueFullError(waiting, wait)

    async def ask(
        self, request: Request, *, delay: float = 0.0, admitted: bool = False, finishes: bool = False
    ) -> Answer:
        """The answer; what comes up to `delay` seconds later goes first.

        What another queue has `admitted` is not refused. Who is cancelled is not answered, but for one that
        `finishes` and has begun.
        """
        if not admitted:
            self.refuse_if_full()
        since = time.perf_counter()
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(request, answer, since, key_name.get())
        number = next(self._numbers)
        turn = WaitingTurn(since + delay, number, waiting, client.get(), self._cost(request))
        with self._changed:
            if self._closing:
                raise QueueFullError(len(self._queue), 1.0)
            self._queue.add(turn)
            self._changed.notify()
        while True:
            try:
                return await (asyncio.shield(answer) if finishes else answer)
            except asyncio.CancelledError:
                with self._changed:
                    withdrawn = self._queue.remove(turn)
                if withdrawn or not finishes:
                    answer.cancel()
                    raise

    @property
    def waiting(self) -> int:
        with self._changed:
            return len(self._queue)

    def close(self) -> None:
        """Answer what was accepted, and stop. Call it where the event loop is free to run, or has ended."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while turns := self._next():
            batch = [turn.work for turn in turns]
            start = time.perf_counter()
            outcomes = self._outcomes([job.request for job in batch])
            took = time.perf_counter() - start
            self._each += SMOOTHING * (took / sum(turn.cost for turn in turns) - self._each)
            self._watch([job.key for job in batch], start - batch[0].since, took)
            loop = batch[0].answer.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_deliver, batch, outcomes)

    def _next(self) -> list[WaitingTurn[_Waiting[Request, Answer]]]:
        """The waiting requests, once there are some; none when it is time to stop."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._queue) or self._closing)
            unit = min(self._most, self._unit_seconds / self._each) if self._each else self._most
            return self._queue.take(self._most, unit)

    def _outcomes(self, requests: list[Request]) -> list[Answer | Exception]:
        try:
            answers: list[Answer | Exception] = [*self._work(requests)]
            assert len(answers) == len(requests)
        except Exception as error:  # noqa: BLE001 (it is raised where the answer is awaited)
            return [error] if len(requests) == 1 else [self._outcomes([one])[0] for one in requests]
        return answers


def _deliver(batch: Sequence[_Waiting[Request, Answer]], outcomes: Sequence[Answer | Exception]) -> None:
    for job, outcome in zip(batch, outcomes, strict=True):
        if job.answer.done():
            continue
        if isinstance(outcome, Exception):
            job.answer.set_exception(outcome)
        else:
            job.answer.set_result(outcome)
