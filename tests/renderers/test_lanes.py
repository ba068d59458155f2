"""The lanes of a sandbox: slow meshes leave a worker to quick ones, and every lane has its limit."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from renderers import lanes
from renderers import sandbox as sandbox_module
from renderers.contracts import MeshError
from renderers.lanes import Deadline, RenderLane, SlowMeshError
from renderers.messages import MeshRequest, WorkerLostError
from renderers.orders import MeshReport, MeshSource, RenderedMesh, ViewOrder
from renderers.processes import Worker
from renderers.sandbox import Sandbox
from tests.waiting import PATIENCE

DRAWN = RenderedMesh(np.zeros((1, 8, 8, 3), np.uint8), MeshReport("y", ""))
MESH, QUICK, SLOW = MeshSource(b"", ".glb"), ViewOrder("ring1", 8), ViewOrder("ring1", 16)


class PlannedWorker(Worker):
    """Draws at once, or as long as a slow mesh is not released; in the end it is too late, as with others."""

    released = threading.Event()

    def __init__(self, *_: object) -> None:
        """No process is started."""

    def kill(self) -> None:
        """There is nothing to end."""

    wait_until_ready = kill

    def draw(self, _: MeshRequest, order: ViewOrder, deadline: Deadline) -> RenderedMesh:
        deadline.start()
        while order.size > 8 and not self.released.wait(0.005):
            if deadline.seconds_left == 0:
                deadline.pass_on()
        return DRAWN


@pytest.fixture(autouse=True)
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "Worker", PlannedWorker)
    monkeypatch.setattr(lanes, "QUICK_SECONDS", 0.05)
    PlannedWorker.released.clear()


def test_slow_meshes_leave_a_worker_to_quick_ones() -> None:
    with Sandbox(2, seconds=2 * PATIENCE) as sandbox, ThreadPoolExecutor(3) as threads:
        slow = [threads.submit(sandbox.draw, MESH, SLOW, "slow") for _ in range(3)]
        try:
            assert sandbox.draw(MESH, QUICK, lane="quick") is DRAWN
            with pytest.raises(SlowMeshError):
                sandbox.draw(MESH, SLOW, lane="quick")
            assert not any(one.done() for one in slow)
        finally:
            PlannedWorker.released.set()
        assert [one.result() for one in slow] == [DRAWN] * 3


@pytest.mark.parametrize("lane", ["quick", "slow", "any"])
def test_a_slow_mesh_has_its_limit_in_every_lane(lane: RenderLane) -> None:
    with Sandbox(2, seconds=0.2) as hasty:
        for _ in range(3):  # each gives its turn back
            with pytest.raises(MeshError, match=r"longer than 0\.2 seconds"):
                hasty.draw(MESH, SLOW, lane=lane)
            assert hasty.draw(MESH, QUICK, lane="quick") is DRAWN


def test_what_waits_for_a_processor_is_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has as much again as others took from it, but not for ever."""
    clock = iter([0.0, 0.01, 0.2])
    deadline = Deadline(0.2)
    deadline.start(lambda: next(clock))
    deadline.pass_on()
    with pytest.raises(WorkerLostError, match=r"longer than 0\.2 seconds"):
        deadline.pass_on()
    monkeypatch.setattr(lanes, "BUSY_FACTOR", 0)
    deadline.start(lambda: 0.0)
    with pytest.raises(WorkerLostError):
        deadline.pass_on()
