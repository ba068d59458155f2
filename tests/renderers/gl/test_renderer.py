"""The renderers that draw with OpenGL: what they draw is what the software renderer draws, nearly.

OpenGL binds itself to a process, so each platform draws in a worker. Where a system has no OpenGL the tests
say so and are skipped; `multifold render --doctor` tells what is missing."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from renderers import cameras
from renderers.contracts import Background, RenderEngineError
from renderers.mesh.load import load_model
from renderers.orders import MeshSource, ViewOrder
from renderers.raster.renderer import SoftwareRenderer
from renderers.sandbox import Sandbox
from tests.renderers.exhibits import EXHIBITS
from tests.renderers.gallery import Agreement
from tests.waiting import PATIENCE

SIZE, RIG = 96, "ring3@20"
LEAST_COMMON, MOST_DIFFERENT = 0.98, 3.0  # what "the same look" means: see docs/decisions


@pytest.fixture(scope="module", params=["egl", "osmesa"])
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    path = made("off", tmp_path_factory.mktemp("first"))
    with Sandbox(1, seconds=PATIENCE, engine=request.param) as sandbox:
        try:
            sandbox.draw(MeshSource(path), ViewOrder("ring1", 16))
        except RenderEngineError as error:
            pytest.skip(str(error))
        yield sandbox


def made(name: str, folder: Path) -> Path:
    return EXHIBITS[name][1](folder)


@pytest.mark.parametrize("name", EXHIBITS)
def test_views_are_those_of_the_software_renderer(box: Sandbox, tmp_path: Path, name: str) -> None:
    path, rig = made(name, tmp_path), cameras.rig(RIG)
    model = load_model(path)
    cut = SoftwareRenderer().render(model, rig, SIZE, "transparent")
    alike = Agreement.of(cut, box.draw(MeshSource(path), ViewOrder(RIG, SIZE, "transparent")).views)
    assert alike.common >= LEAST_COMMON
    assert alike.difference < MOST_DIFFERENT
    white = SoftwareRenderer().render(model, rig, SIZE).astype(int)
    apart = np.abs(white - box.draw(MeshSource(path), ViewOrder(RIG, SIZE)).views)
    assert apart[cut[..., 3] > 0].mean() < MOST_DIFFERENT


@pytest.mark.parametrize("rig", ["tricolo2024", "tricolo2022", "sphere3"])
def test_every_rig_is_framed_alike(box: Sandbox, tmp_path: Path, rig: str) -> None:
    path = made("vertex-colors", tmp_path)
    ours = SoftwareRenderer().render(load_model(path), cameras.rig(rig), SIZE, "transparent")
    alike = Agreement.of(ours, box.draw(MeshSource(path), ViewOrder(rig, SIZE, "transparent")).views)
    assert alike.common >= LEAST_COMMON
    assert alike.difference < MOST_DIFFERENT


def test_the_background_is_all_white_or_black(box: Sandbox, tmp_path: Path) -> None:
    grounds: dict[Background, int] = {"white": 255, "black": 0, "transparent": 0}
    for background, value in grounds.items():
        drawn = box.draw(MeshSource(made("off", tmp_path)), ViewOrder(RIG, SIZE, background))
        assert (drawn.views[:, 0] == value).all()


def test_models_of_all_sizes_follow_each_other(box: Sandbox, tmp_path: Path) -> None:
    first, second = made("emissive", tmp_path), made("blend", tmp_path)
    before = [box.draw(MeshSource(first), ViewOrder(RIG, size)).views for size in (64, 32)]
    box.draw(MeshSource(second), ViewOrder(RIG, 48))
    after = [box.draw(MeshSource(first), ViewOrder(RIG, size)).views for size in (64, 32)]
    assert all((one == two).all() for one, two in zip(before, after, strict=True))


MEMORY = """
import sys
from pathlib import Path
from renderers import cameras, engines
from renderers.mesh.load import load_model
renderer, rig = engines.engine(sys.argv[1]).open(), cameras.rig("ring1")
models = [load_model(Path(path)) for path in sys.argv[2:]]
def used():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
for number in range(600):
    renderer.render(models[number % len(models)], rig, 32)
    if number == 200:
        before = used()
print(used() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow(box: Sandbox, tmp_path: Path) -> None:
    meshes = [str(made(name, tmp_path)) for name in ("all-maps", "mask", "blend", "ply")]
    grown = python(MEMORY, box.engine.name, *meshes)
    assert int(grown) < 8 << 20  # a leak of one texture or one mesh would be ten times as much


BOUND = """
import sys, threading
from pathlib import Path
from multifold.errors import MultifoldError
from renderers import cameras, engines
from renderers.contracts import RenderEngineError
from renderers.mesh.load import load_model
engine = engines.engine(sys.argv[1])
renderer = engine.open()
assert f'{renderer.name}-{renderer.version}' == engine.pixels
def draw():
    try:
        renderer.render(load_model(Path(sys.argv[3])), cameras.rig("ring1"), 16)
    except RenderEngineError as error:
        print(error)
thread = threading.Thread(target=draw)
thread.start()
thread.join()
draw()
try:
    engines.engine(sys.argv[2]).open()
except MultifoldError as error:
    print(error)
"""


def test_a_process_draws_through_one_platform_in_one_thread(box: Sandbox, tmp_path: Path) -> None:
    other = {"egl": "osmesa", "osmesa": "egl"}[box.engine.name]
    said = python(BOUND, box.engine.name, other, str(made("ply", tmp_path)))
    assert said.count("only in the thread that opened it") == 1
    assert f"bound to OpenGL through {box.engine.name}" in said


def test_a_system_without_opengl_is_told_what_to_install() -> None:
    """As PyOpenGL sees it: a platform whose library cannot be loaded."""
    said = python(
        "import ctypes, ctypes.util\n"
        "def missing(*_, **__): raise OSError('libOSMesa.so.8: cannot open shared object file')\n"
        "ctypes.CDLL.__init__ = missing\n"
        "ctypes.util.find_library = lambda name: None\n"
        "from multifold.errors import MultifoldError\n"
        "from renderers import engines\n"
        "try:\n    engines.engine('osmesa').open()\n"
        "except MultifoldError as error:\n    print(error)"
    )
    assert "'osmesa' does not work here" in said
    assert "apt-get install libosmesa6" in said or "pip install" in said


def python(program: str, *words: str) -> str:
    """What a program prints in a process of its own."""
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
