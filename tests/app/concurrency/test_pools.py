"""Pools are bounded, and quick meshes do not wait behind slow ones."""

import asyncio
import threading
from contextlib import closing
from functools import partial

import pytest

from app.concurrency.batching import QueueFullError
from app.concurrency.pools import LARGE_MESH, RenderPool, ThreadPool
from renderers.lanes import RenderLane, SlowMeshError
from tests.waiting import PATIENCE, wait_for


def test_a_pool_is_bounded_and_drops_what_nobody_waits_for() -> None:
    done: list[int] = []
    door, inside = threading.Event(), threading.Event()

    def first() -> None:
        inside.set()
        wait_for(door, "the door to open")

    async def whole() -> None:
        pool = ThreadPool(threads=1, room=2)
        running = asyncio.create_task(pool.run(first))
        while not inside.is_set():
            await asyncio.sleep(0.001)
        gone, stays = (asyncio.create_task(pool.run(lambda n=n: done.append(n))) for n in (1, 2))  # type: ignore[misc]
        await asyncio.sleep(0)
        with pytest.raises(QueueFullError):
            await pool.run(lambda: done.append(3))
        gone.cancel()
        await asyncio.sleep(0)
        assert pool.waiting == 1
        door.set()
        await asyncio.gather(running, stays)
        await asyncio.to_thread(pool.close)

    asyncio.run(whole())
    assert done == [2]


@pytest.mark.parametrize(("workers", "size"), [(2, 0), (3, 0), (2, LARGE_MESH + 1)])
def test_a_quick_mesh_passes_slow_ones(workers: int, size: int) -> None:
    """A slow one that is not known by its size is found out in the quick lane, and drawn in the slow one."""
    lanes: list[RenderLane] = []
    release = threading.Event()

    def draw_slowly(lane: RenderLane) -> str:
        lanes.append(lane)
        if lane == "quick":
            raise SlowMeshError("slow")
        wait_for(release, "the quick one to be drawn")
        return "slow"

    async def draw_all() -> None:
        with closing(RenderPool(workers, room=9)) as pool:
            slow = [asyncio.create_task(pool.run(draw_slowly, size)) for _ in range(4)]
            try:
                assert await asyncio.wait_for(pool.run(lambda lane: lane), PATIENCE) == "quick"
                assert not any(one.done() for one in slow)
            finally:
                release.set()
            assert await asyncio.gather(*slow) == ["slow"] * 4

    asyncio.run(draw_all())
    assert lanes.count("slow") == 4
    assert lanes.count("quick") == (0 if size else 4)


def test_small_meshes_go_first() -> None:
    order, begin = list[int](), threading.Event()

    async def draw_all() -> None:
        with closing(RenderPool(1, room=9)) as pool:

            def draw(size: int, _: RenderLane) -> None:
                wait_for(begin, "all to be there")
                order.append(size)

            sizes = (0, 800_000, 400_000, 1)
            tasks = [asyncio.create_task(pool.run(partial(draw, size), size)) for size in sizes]
            await asyncio.sleep(0.05)
            begin.set()
            await asyncio.gather(*tasks)

    asyncio.run(draw_all())
    assert order == [0, 1, 400_000, 800_000]
