"""Quick meshes do not wait behind slow ones."""

import asyncio
import threading
import time
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from app.concurrency.pools import LARGE_MESH, RenderPool
from renderers import sandbox as sandbox_module
from renderers.contracts import MeshError
from renderers.messages import RenderedMesh, RenderRequest
from renderers.sandbox import RenderLane, Sandbox
from tests.waiting import PATIENCE, wait_for

DRAWN = RenderedMesh(np.zeros((1, 8, 8, 3), np.uint8), "y", "", ())


class PlannedWorker:
    """Draws at once, or as long as a slow mesh is not released; in the end it is too late, as with others."""

    released = threading.Event()

    def __init__(self, *_: object) -> None:
        self.kill = lambda: None

    def draw(self, request: RenderRequest, _: int, deadline: sandbox_module._Deadline) -> RenderedMesh:
        deadline.start()
        while request.size > 8 and not self.released.wait(0.005):
            if time.monotonic() > deadline.moment:
                deadline.pass_on()
        return DRAWN


@pytest.fixture(autouse=True)
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "Worker", PlannedWorker)
    monkeypatch.setattr(sandbox_module, "QUICK_SECONDS", 0.05)
    PlannedWorker.released.clear()


@pytest.mark.parametrize(("workers", "large"), [(2, False), (3, False), (2, True)])
def test_a_quick_mesh_passes_slow_ones(workers: int, large: bool) -> None:
    async def draw_all() -> None:
        with Sandbox(workers, seconds=2 * PATIENCE) as sandbox, closing(RenderPool(workers, room=9)) as pool:

            async def draw(size: int) -> RenderedMesh:
                weight = LARGE_MESH + 1 if large and size > 8 else 0
                return await pool.run(
                    lambda lane: sandbox.draw(b"", ".glb", "ring1", size, lane=lane), weight
                )

            slow = [asyncio.create_task(draw(16)) for _ in range(4)]
            try:
                assert await asyncio.wait_for(draw(8), PATIENCE) is DRAWN
                assert not any(one.done() for one in slow)
            finally:
                PlannedWorker.released.set()
            assert await asyncio.gather(*slow) == [DRAWN] * 4

    asyncio.run(draw_all())


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


@pytest.mark.parametrize("lane", ["quick", "slow", "any"])
def test_a_slow_mesh_has_its_limit_in_every_lane(lane: RenderLane) -> None:
    with Sandbox(2, seconds=0.2) as hasty:
        for _ in range(3):  # each gives its turn back
            with pytest.raises(MeshError, match=r"longer than 0\.2 seconds"):
                hasty.draw(b"", ".glb", "ring1", 16, lane=lane)
            assert hasty.draw(b"", ".glb", "ring1", 8, lane="quick") is DRAWN
