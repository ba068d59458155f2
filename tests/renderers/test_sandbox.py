"""Worker processes: what they draw is what we draw, and what kills them kills no one else."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
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
from renderers.orders import MeshSource, RenderedMesh, ViewOrder
from renderers.processes import Worker
from renderers.raster.renderer import SoftwareRenderer
from renderers.sandbox import Sandbox, SandboxClosedError
from tests.renderers.glb import Glb, unlit
from tests.waiting import PATIENCE

GOOD = Glb()
GOOD.square(unlit(GOOD, (1, 0, 0, 1)))
GOOD.square(unlit(GOOD, (0, 1, 0, 0.5), alphaMode="BLEND"), z=0.5, scale=0.5)
SIZE = 32
GOOD_UPLOAD, ONE_VIEW = MeshSource(GOOD.bytes(), ".glb"), ViewOrder("ring1", SIZE)


@pytest.fixture(scope="module")
def pair() -> Iterator[Sandbox]:
    with Sandbox(workers=2, seconds=PATIENCE) as workers:
        yield workers


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


def test_views_are_those_of_the_renderer(pair: Sandbox, tmp_path: Path) -> None:
    model = load_model(GOOD.save(tmp_path))
    expected = SoftwareRenderer().render(model, cameras.rig("ring6"), SIZE, "black")
    assert (pair.draw(GOOD_UPLOAD, ViewOrder("ring6", SIZE, "black")).views == expected).all()
    assert (
        pair.draw(MeshSource(tmp_path / "mesh.glb"), ViewOrder("ring6", SIZE, "black")).views == expected
    ).all()


def test_one_worker_and_two_make_the_same_pixels(pair: Sandbox, tmp_path: Path) -> None:
    paths = []
    for number in range(6):
        paths.append(tmp_path / f"{number}.ply")
        trimesh.creation.box((1, 1 + number, 2)).export(paths[-1])
    with Sandbox(workers=1, seconds=PATIENCE) as alone:
        single = list(alone.draw_many(map(MeshSource, paths), ViewOrder("ring6", SIZE)))
    for one, two in zip(
        single, pair.draw_many(map(MeshSource, paths), ViewOrder("ring6", SIZE)), strict=True
    ):
        assert isinstance(one, RenderedMesh)
        assert isinstance(two, RenderedMesh)
        assert (one.views == two.views).all()


def test_many_threads_may_ask_at_once(pair: Sandbox) -> None:
    with ThreadPoolExecutor(8) as threads:
        views = list(
            threads.map(
                lambda _: pair.draw(GOOD_UPLOAD, ONE_VIEW).views,
                range(24),
            )
        )
    assert all((one == views[0]).all() for one in views)


def test_refusals_come_back_as_they_are(pair: Sandbox) -> None:
    with pytest.raises(MeshError, match="not a GLB file"):
        pair.draw(MeshSource(b"a poem about chairs", ".glb"))
    with pytest.raises(MeshError, match="Blender"):
        pair.draw(MeshSource(b"Kaydara", ".fbx"))
    with pytest.raises(MeshError, match="unknown kind"):
        pair.draw(MeshSource(b"x", ".glb/../../x"))
    with pytest.raises(MultifoldError, match="no camera rig"):
        pair.draw(GOOD_UPLOAD, ViewOrder("round"))
    with pytest.raises(MultifoldError, match="pixels"):
        pair.draw(GOOD_UPLOAD, ViewOrder(size=100000))
    assert pair.draw(MeshSource(GOOD.bytes(), ".GLB"), ONE_VIEW).views.shape == (1, SIZE, SIZE, 3)


def test_many_keep_their_order_and_their_errors(pair: Sandbox, tmp_path: Path) -> None:
    bad = tmp_path / "bad.glb"
    bad.write_bytes(b"junk")
    paths = [GOOD.save(tmp_path), bad, tmp_path / "gone.glb", tmp_path / "mesh.glb"] * 3
    results = list(pair.draw_many(map(MeshSource, paths), ONE_VIEW))
    assert [isinstance(one, MeshError) for one in results] == [False, True, True, False] * 3


def test_uploads_lie_alone_and_leave_nothing(
    pair: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "secret.bin").write_bytes(bytes(1000))
    spying = b'{"asset": {"version": "2.0"}, "buffers": [{"uri": "../secret.bin", "byteLength": 9}],'
    spying += b'"bufferViews": [{"buffer": 0, "byteLength": 9}], "scenes": [{"nodes": [0]}],'
    spying += b'"nodes": [{"mesh": 0}],'
    spying += b'"meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],'
    spying += b'"accessors": [{"bufferView": 0, "count": 1, "type": "SCALAR", "componentType": 5121}]}'
    with pytest.raises(MeshError, match="outside its folder"):
        pair.draw(MeshSource(spying, ".gltf"))
    assert [path.name for path in tmp_path.iterdir()] == ["secret.bin"]


def test_a_mesh_that_takes_too_long_is_given_up_and_the_next_is_drawn(tmp_path: Path) -> None:
    with Sandbox(workers=1, seconds=2.0) as hasty:
        with pytest.raises(MeshError, match="longer than 2 seconds"):
            hasty.draw(MeshSource(slow(tmp_path)), ViewOrder("ring99", 1024))
        assert hasty.draw(GOOD_UPLOAD, ONE_VIEW).views.shape == (1, SIZE, SIZE, 3)


@pytest.mark.skipif(sys.platform != "linux", reason="memory limits are Linux's")
def test_a_mesh_that_needs_too_much_memory_is_given_up_and_the_next_is_drawn(tmp_path: Path) -> None:
    with Sandbox(workers=1, seconds=PATIENCE, memory_bytes=128 << 20) as small:
        with pytest.raises(MeshError, match="memory"):
            small.draw(MeshSource(large(tmp_path)), ONE_VIEW)
        assert small.draw(GOOD_UPLOAD, ONE_VIEW).views.shape == (1, SIZE, SIZE, 3)


def test_a_crash_is_that_mesh_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []
    signals: list[signal.Signals] = []  # what each of the next meshes meets while it is drawn

    class Watched(Worker):
        def __init__(self, memory_bytes: int, engine: str) -> None:
            super().__init__(memory_bytes, engine)
            pids.append(self.pid)

        def draw(self, request: MeshRequest, order: ViewOrder, deadline: Deadline) -> RenderedMesh:
            if signals:
                threading.Timer(0.3, os.kill, (self.pid, signals.pop())).start()
            return super().draw(request, order, deadline)

    monkeypatch.setattr(sandbox, "Worker", Watched)
    with Sandbox(workers=1, seconds=PATIENCE) as workers:
        path = slow(tmp_path)
        workers.draw(GOOD_UPLOAD, ONE_VIEW)
        signals.append(signal.SIGSEGV)
        with pytest.raises(MeshError, match="crash"):
            workers.draw(MeshSource(path), ViewOrder("ring12", 1024))
        assert workers.draw(GOOD_UPLOAD, ONE_VIEW).views.shape == (1, SIZE, SIZE, 3)
        os.kill(pids[1], signal.SIGKILL)  # somebody else did that, and nobody should notice
        assert workers.draw(GOOD_UPLOAD, ONE_VIEW).views.shape == (1, SIZE, SIZE, 3)
        signals.append(signal.SIGKILL)
        assert workers.draw(MeshSource(path), ViewOrder("ring12", 1024)).views.shape == (12, 1024, 1024, 3)
    assert len(pids) == 4


def test_one_worker_is_ready_and_others_start_when_they_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Worker] = []

    class Counted(Worker):
        def __init__(self, memory_bytes: int, engine: str) -> None:
            super().__init__(memory_bytes, engine)
            started.append(self)

    monkeypatch.setattr(sandbox, "Worker", Counted)
    monkeypatch.setattr(sandbox, "READY", 1)
    with Sandbox(workers=3, seconds=PATIENCE) as workers:
        for _ in range(3):
            assert len(started) == 1
            workers.draw(GOOD_UPLOAD, ONE_VIEW)
        assert (
            len([*workers.draw_many(map(MeshSource, [slow(tmp_path)] * 4), ViewOrder("ring12", 1024))]) == 4
        )
        assert 1 < len(started) <= 3
    with Sandbox(workers=0):
        assert len(started) <= 3


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_know_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    worker = Worker(1 << 30, "numba")
    try:
        assert b"hunter2" not in Path(f"/proc/{worker.pid}/environ").read_bytes()
    finally:
        worker.kill()


def test_a_closed_sandbox_says_so() -> None:
    closed = Sandbox(workers=2)
    closed.close()
    closed.close()
    with pytest.raises(SandboxClosedError):
        closed.draw(GOOD_UPLOAD)


def test_the_first_start_compiles_once_and_says_so(tmp_path: Path) -> None:
    program = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from pathlib import Path\n"
        "from renderers.orders import MeshSource, ViewOrder\n"
        "from renderers.sandbox import Sandbox\n"
        "import sys\n"
        "with Sandbox(2, seconds=600) as sandbox, ThreadPoolExecutor(2) as threads:\n"
        "    mesh, order = MeshSource(Path(sys.argv[1])), ViewOrder('ring1', 8)\n"
        "    list(threads.map(lambda _: sandbox.draw(mesh, order), range(2)))\n"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "code"), "PYTHONPATH": paths}
    command = [sys.executable, "-c", program, str(GOOD.save(tmp_path))]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert first.stderr.count("the renderer is compiling for this machine") == 1
    assert second.stderr == ""
