"""Thread pools for work that is not batched, each with a bounded queue."""

from collections.abc import Callable
from typing import Any, TypeVar

from app.concurrency.batching import LONGEST_RETRY, Batcher, OnBatch, ignore_batch
from renderers.lanes import RenderLane, SlowMeshError

T = TypeVar("T")
LARGE_MESH = 1 << 20  # bytes of a mesh that is taken for slow
PATIENCE = 30.0  # seconds that a mesh may wait, as drawing takes some
SECONDS_A_BYTE = 5 / (1 << 20)  # that a mesh lets others pass


class ThreadPool:
    """A bounded pool; work whose caller was cancelled is dropped, unless it has begun."""

    def __init__(
        self, threads: int, room: int, watch: OnBatch = ignore_batch, patience: float = LONGEST_RETRY
    ) -> None:
        self._works: Batcher[Callable[[], Any], Any] = Batcher(
            lambda works: [work() for work in works],
            most=1,
            room=room,
            threads=threads,
            watch=watch,
            patience=patience,
        )
        self.refuse_if_full = self._works.refuse_if_full

    async def run(
        self, work: Callable[[], T], *, delay: float = 0.0, admitted: bool = False, finishes: bool = False
    ) -> T:
        """Do it in turn; what came up to `delay` seconds later goes first.

        What another queue has `admitted` is not refused. What `finishes` is not given up once it has begun.
        """
        done: T = await self._works.ask(work, delay=delay, admitted=admitted, finishes=finishes)
        return done

    @property
    def waiting(self) -> int:
        return self._works.waiting

    def close(self) -> None:
        self._works.close()


class RenderPool:
    """Draws meshes for requests, small ones first; large and slow ones leave one worker to the others."""

    def __init__(self, workers: int, room: int, watch: OnBatch = ignore_batch) -> None:
        self._quick = ThreadPool(workers, room, watch, PATIENCE)
        self._slow = ThreadPool(max(1, workers - 1), room, watch, PATIENCE)

    async def run(self, draw: Callable[[RenderLane], T], size: int = 0, *, admitted: bool = False) -> T:
        """Draw a mesh; its size in bytes says how long it may take."""
        delay = size * SECONDS_A_BYTE
        if size > LARGE_MESH:
            return await self._slow.run(lambda: draw("slow"), delay=delay, admitted=admitted)
        try:
            return await self._quick.run(lambda: draw("quick"), delay=delay, admitted=admitted)
        except SlowMeshError:
            return await self._slow.run(lambda: draw("slow"), delay=delay, admitted=True)

    @property
    def waiting(self) -> int:
        return self._quick.waiting + self._slow.waiting

    def close(self) -> None:
        self._quick.close()
        self._slow.close()
