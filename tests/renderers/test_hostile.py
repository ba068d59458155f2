"""Hundreds of hostile files through the sandbox: each is drawn or refused with a sentence, and no more."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from renderers import sandbox as sandbox_module
from renderers.contracts import MeshError, MeshLimits
from renderers.mesh.load import load_model
from renderers.orders import MeshSource, ViewOrder
from renderers.processes import Worker
from renderers.sandbox import Sandbox
from tests.renderers import made
from tests.renderers.glb import colored_square
from tests.renderers.hostile.crafted import CANARY, Case, crafted, paths
from tests.renderers.hostile.mutations import mutations
from tests.renderers.hostile.originals import originals
from tests.waiting import PATIENCE

SIZE = 16
LONGEST = 400  # letters of a refusal
GROWTH = 48 << 20  # bytes of this process over a whole corpus: the allocator keeps some
SMALL = MeshLimits(image_pixels=16_000_000)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(1, seconds=PATIENCE, memory_bytes=1 << 30, limits=SMALL) as one:
        yield one


def laid_out(folder: Path, case: Case) -> Path:
    """The case in a folder of its own, with canaries outside that would be good files of their kind."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (folder / f"{CANARY}.bin").write_bytes(originals()["gltf"]["m.bin"])
    (folder / f"{CANARY}.png").write_bytes(made.png((255, 0, 0)))
    (folder / f"{CANARY}.mtl").write_text("newmtl a\nKd 1 0 0\n")
    for old in home.iterdir():
        old.unlink()
    for name, data in case.files.items():
        (home / name).write_bytes(data)
    for name, target in case.links.items():
        (home / name).symlink_to(target)
    return home / case.main


def judge(sandbox: Sandbox, path: Path, case: Case) -> str:
    """What became of a case; raises if it is not what must become of it."""
    try:
        views = sandbox.draw(MeshSource(path), ViewOrder("ring1", SIZE)).views
    except MeshError as error:
        said = str(error)
        assert re.search(case.reason, said), f"{case.name}: {said}"
        assert 20 < len(said) < LONGEST, f"{case.name}: {said}"
        assert "Traceback" not in said
        return said
    assert not case.reason, f"{case.name} was drawn"
    assert views.shape == (1, SIZE, SIZE, 3)
    return "drawn"


def memory(process: int | str = "self") -> int:
    """The resident memory of a process, in bytes."""
    words = Path(f"/proc/{process}/status").read_text().split()
    return 1024 * int(words[words.index("VmRSS:") + 1])


def through(sandbox: Sandbox, folder: Path, cases: list[Case]) -> list[str]:
    return [judge(sandbox, laid_out(folder, case), case) for case in cases]


def test_the_originals_are_good(sandbox: Sandbox, tmp_path: Path) -> None:
    cases = [Case(name, files) for name, files in originals().items()]
    assert set(through(sandbox, tmp_path, cases)) == {"drawn"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_crafted_files(sandbox: Sandbox, tmp_path: Path) -> None:
    cases = crafted()
    assert len(cases) >= 200
    before = memory()
    outcomes = through(sandbox, tmp_path, cases)
    assert memory() - before < GROWTH
    assert outcomes.count("drawn") < len(cases) / 4


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
def test_mutated_files(sandbox: Sandbox, tmp_path: Path) -> None:
    cases = list(mutations(each=40))
    through(sandbox, tmp_path, cases[:50])
    before = memory()
    outcomes = through(sandbox, tmp_path, cases)
    assert memory() - before < GROWTH
    assert len(cases) / 10 < outcomes.count("drawn") < len(cases) * 9 / 10


def test_some_mutated_files(sandbox: Sandbox, tmp_path: Path) -> None:
    through(sandbox, tmp_path, list(mutations(each=6, seed=1)))


class Watch:
    """Which files this process opens while it is on."""

    def __init__(self) -> None:
        self.on, self.opened = False, list[str]()
        sys.addaudithook(self.note)

    def note(self, event: str, args: tuple[object, ...]) -> None:
        if self.on and event == "open" and isinstance(args[0], str):
            self.opened.append(args[0])


def test_no_file_outside_is_opened_even_without_the_guard(tmp_path: Path) -> None:
    watch = Watch()
    for case in paths():
        path = laid_out(tmp_path, case)
        watch.on = True
        try:
            load_model(path)
        except MeshError:
            pass
        finally:
            watch.on = False
    assert any(opened.endswith("mesh.gltf") for opened in watch.opened)
    strays = [one for one in watch.opened if CANARY in one or one.startswith("/etc")]
    assert strays == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_four_thousand_renders_do_not_make_us_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []

    class Watched(Worker):
        def __init__(self, memory_bytes: int, engine: str) -> None:
            super().__init__(memory_bytes, engine)
            pids.append(self.pid)

    monkeypatch.setattr(sandbox_module, "Worker", Watched)
    square = MeshSource(colored_square().bytes(), ".glb")
    with Sandbox(1, seconds=PATIENCE) as sandbox:
        first, before = sandbox.draw(square, ViewOrder("ring1", 8)).views, (0, 0)
        for number in range(4_000):
            assert (sandbox.draw(square, ViewOrder("ring1", 8)).views == first).all()
            if number == 1_000:
                before = memory(), memory(pids[0])
        after = memory(), memory(pids[0])
    assert len(pids) == 1
    assert max(now - then for now, then in zip(after, before, strict=True)) < 3 << 20
