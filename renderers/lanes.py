"""How long a mesh may take, in time of the processor, and who lets others pass.

A mesh that takes longer than `QUICK_SECONDS` is slow. Callers who draw for others in turn use the lanes
`quick` and `slow`: slow meshes then leave one worker to quick ones. One that is found to be slow while the
others are taken is a `SlowMeshError`, and drawn anew in the slow lane. The lane `any` lets nobody pass.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from renderers.messages import WorkerLostError

RenderLane: TypeAlias = Literal["any", "quick", "slow"]
QUICK_SECONDS = 1.0
TOO_LONG = "the mesh took longer than"
BUSY_FACTOR = 10  # times as long at most, whatever else the processors do
TICK = 0.01  # of clocks of processors


class SlowMeshError(WorkerLostError):
    """The mesh is slow, and so are those that are drawn already: ask again in the slow lane."""


class Deadline:
    """A moment in the future; for a quick mesh a nearer one first, until it has a turn of the slow ones."""

    def __init__(self, seconds: float, slow_turns: threading.Semaphore | None = None) -> None:
        self._seconds, self._slow_turns = seconds, slow_turns
        self.quick = slow_turns is not None
        self.start()

    def start(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Count the time from now on, by a clock of the processor where other work may hold the mesh up."""
        self._clock, self._begun = clock, clock()
        self._last = time.monotonic() + BUSY_FACTOR * self._seconds
        self.moment = time.monotonic() + self._limit

    @property
    def _limit(self) -> float:
        return min(QUICK_SECONDS, self._seconds) if self.quick else self._seconds

    @property
    def seconds_left(self) -> float:
        return max(self.moment - time.monotonic(), 0.0)

    def pass_on(self) -> None:
        """The moment is over: go on if little of the time was the mesh's own, or as a slow mesh if there is a
        turn for one, else give up.
        """
        own = self._clock() - self._begun
        if own < self._limit - TICK and time.monotonic() < self._last:
            self.moment = time.monotonic() + self._limit - own
            return
        sentence = f"{TOO_LONG} {self._seconds:g} seconds. Simplify it first."
        if not self.quick or self._slow_turns is None or self._seconds <= QUICK_SECONDS:
            raise WorkerLostError(sentence)
        if not self._slow_turns.acquire(blocking=False):
            raise SlowMeshError(sentence)
        self.quick = False
        self.moment = time.monotonic() + self._seconds - own


class Lanes:
    """The turns of slow meshes before so many workers."""

    def __init__(self, workers: int, seconds: float) -> None:
        self._seconds = seconds
        self._slow_turns = threading.Semaphore(max(1, workers - 1))

    @contextmanager
    def enter(self, lane: RenderLane) -> Iterator[Deadline]:
        """Wait for a turn of the lane, and hold it until the end of the block."""
        if lane == "any":
            yield Deadline(self._seconds)
            return
        if lane == "slow":
            self._slow_turns.acquire()
        deadline = Deadline(self._seconds, self._slow_turns if lane == "quick" else None)
        try:
            yield deadline
        finally:
            if not deadline.quick:  # it has a turn of the slow ones, from the start or since
                self._slow_turns.release()
