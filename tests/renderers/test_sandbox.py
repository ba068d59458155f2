"""Worker processes: what they draw is what we draw, and what kills them kills no one else."""

import os
import signal
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import trimesh

from multifold.errors import MultifoldError
from renderers import cameras, sandbox
from renderers.contracts import MeshError
from renderers.lanes import Deadline
from renderers.mesh.load import load_model
from renderers.messages import MeshRequest
from renderers.orders import MeshReport, MeshSource, RenderedMesh, ViewOrder
from renderers.processes import Worker
from renderers.raster.renderer import SoftwareRenderer
from renderers.sandbox import Sandbox, SandboxClosedError
from tests.renderers.glb import Glb, colored_square, unlit
from tests.renderers.hostile.originals import originals
from tests.waiting import PATIENCE, until

GOOD = colored_square()
GOOD.square(unlit(GOOD, (0, 1, 0, 0.5), alphaMode="BLEND"), z=0.5, scale=0.5)
SIZE = 32
SHAPE = (1, SIZE, SIZE, 3)
GOOD_UPLOAD, ONE_VIEW = MeshSource(GOOD.bytes(), ".glb"), ViewOrder("ring1", SIZE)


def slow(folder: Path) -> Path:
    """A mesh that takes seconds to draw: many large faces behind each other."""
    glb = Glb()
    for layer in range(40):
        glb.square(unlit(glb), z=layer / 100)
    return glb.save(folder, "slow.glb")


def large(folder: Path) -> Path:
    """A mesh that takes hundreds of megabytes."""
    path, random = folder / "large.ply", np.random.default_rng(3)
    vertices, faces = random.random((200_000, 3)), random.integers(0, 200_000, (400_000, 3))
    trimesh.Trimesh(vertices, faces, process=False).export(path)
    return path


def test_views_are_those_of_the_renderer(workers: Sandbox, tmp_path: Path) -> None:
    expected = SoftwareRenderer().render(load_model(GOOD.save(tmp_path)), cameras.rig("ring6"), SIZE, "black")
    for source in (GOOD_UPLOAD, MeshSource(tmp_path / "mesh.glb")):
        assert (workers.draw(source, ViewOrder("ring6", SIZE, "black")).views == expected).all()


@pytest.mark.parametrize(("ready", "count"), [(None, 1), (0, 0), (1, 1), (5, 2)])
def test_workers_start_before_a_mesh_comes(
    monkeypatch: pytest.MonkeyPatch, ready: int | None, count: int
) -> None:
    started: list[Worker] = []

    def start(memory_bytes: int, engine: str) -> Worker:
        started.append(Worker(memory_bytes, engine))
        return started[-1]

    monkeypatch.setattr(sandbox, "Worker", start)
    monkeypatch.setattr(sandbox, "READY", 1)  # also where tests of services came before, which start none
    with Sandbox(2, seconds=PATIENCE, ready=ready):
        assert len(started) == count


def test_two_workers_make_the_pixels_of_one_process(workers: Sandbox, tmp_path: Path) -> None:
    paths = []
    for number, files in enumerate(originals().values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        paths += [path for path in folder.iterdir() if path.stem == "mesh"]
    drawn = workers.draw_many(map(MeshSource, paths * 2), ViewOrder("ring2", SIZE))
    for path, views in zip(paths * 2, drawn, strict=True):
        assert isinstance(views, RenderedMesh)
        ours = SoftwareRenderer().render(load_model(path), cameras.rig("ring2"), SIZE)
        assert (views.views == ours).all(), path


def test_many_threads_may_ask_at_once(workers: Sandbox) -> None:
    with ThreadPoolExecutor(8) as threads:
        views = list(threads.map(lambda _: workers.draw(GOOD_UPLOAD, ONE_VIEW).views, range(24)))
    assert all((one == views[0]).all() for one in views)


def test_refusals_come_back_as_they_are(workers: Sandbox) -> None:
    with pytest.raises(MeshError, match="not a GLB file"):
        workers.draw(MeshSource(b"a poem about chairs", ".glb"))
    with pytest.raises(MeshError, match="Blender"):
        workers.draw(MeshSource(b"Kaydara", ".fbx"))
    with pytest.raises(MeshError, match="unknown kind"):
        workers.draw(MeshSource(b"x", ".glb/../../x"))
    for order, said in ((ViewOrder("round"), "no camera rig"), (ViewOrder(size=100000), "pixels")):
        with pytest.raises(MultifoldError, match=said):
            workers.draw(GOOD_UPLOAD, order)
    assert workers.draw(MeshSource(GOOD.bytes(), ".GLB"), ONE_VIEW).views.shape == SHAPE


def test_many_keep_their_order_and_their_errors(workers: Sandbox, tmp_path: Path) -> None:
    bad = tmp_path / "bad.glb"
    bad.write_bytes(b"junk")
    paths = [GOOD.save(tmp_path), bad, tmp_path / "gone.glb", tmp_path / "mesh.glb"] * 3
    results = list(workers.draw_many(map(MeshSource, paths), ONE_VIEW))
    assert [isinstance(one, MeshError) for one in results] == [False, True, True, False] * 3


def test_uploads_lie_alone_and_leave_nothing(
    workers: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "secret.bin").write_bytes(bytes(1000))
    spying = b'{"asset": {"version": "2.0"}, "buffers": [{"uri": "../secret.bin", "byteLength": 9}],'
    spying += b'"bufferViews": [{"buffer": 0, "byteLength": 9}], "scenes": [{"nodes": [0]}],'
    spying += b'"nodes": [{"mesh": 0}],'
    spying += b'"meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],'
    spying += b'"accessors": [{"bufferView": 0, "count": 1, "type": "SCALAR", "componentType": 5121}]}'
    with pytest.raises(MeshError, match="outside its folder"):
        workers.draw(MeshSource(spying, ".gltf"))
    assert [path.name for path in tmp_path.iterdir()] == ["secret.bin"]


def test_a_mesh_that_takes_too_long_is_given_up_and_the_next_is_drawn(tmp_path: Path) -> None:
    with Sandbox(workers=1, seconds=2.0) as hasty:
        with pytest.raises(MeshError, match="longer than 2 seconds"):
            hasty.draw(MeshSource(slow(tmp_path)), ViewOrder("ring99", 1024))
        assert hasty.draw(GOOD_UPLOAD, ONE_VIEW).views.shape == SHAPE


@pytest.mark.skipif(sys.platform != "linux", reason="memory limits are Linux's")
def test_a_mesh_that_needs_too_much_memory_is_given_up_and_the_next_is_drawn(tmp_path: Path) -> None:
    with Sandbox(workers=1, seconds=PATIENCE, memory_bytes=128 << 20) as small:
        with pytest.raises(MeshError, match="memory"):
            small.draw(MeshSource(large(tmp_path)), ONE_VIEW)
        assert small.draw(GOOD_UPLOAD, ONE_VIEW).views.shape == SHAPE


def test_a_crash_is_that_mesh_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []
    signals: list[signal.Signals] = []  # what each of the next meshes meets while it is drawn

    class Watched(Worker):
        def __init__(self, memory_bytes: int, engine: str) -> None:
            super().__init__(memory_bytes, engine)
            pids.append(self.pid)

        def draw(self, request: MeshRequest, order: ViewOrder, deadline: Deadline) -> RenderedMesh:
            self.wait_until_ready()
            if signals:
                os.kill(self.pid, signal.SIGSTOP)  # it has not begun when the signal comes
                threading.Timer(0.05, self.meet, (signals.pop(),)).start()
            return super().draw(request, order, deadline)

        def meet(self, number: signal.Signals) -> None:
            os.kill(self.pid, number)
            os.kill(self.pid, signal.SIGCONT)

    monkeypatch.setattr(sandbox, "Worker", Watched)
    with Sandbox(workers=1, seconds=PATIENCE) as watched:
        signals.append(signal.SIGSEGV)
        with pytest.raises(MeshError, match="crash"):
            watched.draw(GOOD_UPLOAD, ONE_VIEW)
        assert watched.draw(GOOD_UPLOAD, ONE_VIEW).views.shape == SHAPE
        os.kill(pids[1], signal.SIGKILL)  # somebody else did that, and nobody should notice
        assert watched.draw(GOOD_UPLOAD, ONE_VIEW).views.shape == SHAPE
        signals.append(signal.SIGKILL)
        assert watched.draw(GOOD_UPLOAD, ONE_VIEW).views.shape == SHAPE
    assert len(pids) == 4


def test_one_worker_starts_and_others_when_they_are_needed_and_it_has_its_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Worker] = []
    has_engine, may_draw = threading.Event(), threading.Event()
    drawn = RenderedMesh(np.zeros(SHAPE, np.uint8), MeshReport("y", ""))

    class Planned(Worker):
        def __init__(self, *_: object) -> None:
            """No process is started."""
            started.append(self)

        def kill(self) -> None:
            """There is nothing to end."""

        def wait_until_ready(self) -> None:
            assert has_engine.wait(PATIENCE)

        def draw(self, *_: object) -> RenderedMesh:
            assert may_draw.wait(PATIENCE)
            return drawn

    monkeypatch.setattr(sandbox, "Worker", Planned)
    with Sandbox(workers=3) as planned, ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(planned.draw, GOOD_UPLOAD, ONE_VIEW) for _ in range(4)]
        assert len(started) == 1
        has_engine.set()
        until(lambda: len(started) == 3)
        may_draw.set()
        assert all(one.result() is drawn for one in asked)
        assert planned.draw(GOOD_UPLOAD, ONE_VIEW) is drawn
    with Sandbox(workers=0):
        assert len(started) == 3


def test_a_closed_sandbox_says_so() -> None:
    closed = Sandbox(workers=2)
    closed.close()
    closed.close()
    with pytest.raises(SandboxClosedError):
        closed.draw(GOOD_UPLOAD)
