"""The house stands as designed: rooms resolve here, files keep their size, one provider is installed."""

import subprocess
import sys
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parent.parent
ROOMS = ("app", "index", "multifold", "renderers", "training")
MOST_LINES = 400


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_resolves_inside_the_checkout(room: str) -> None:
    spec = find_spec(room)
    assert spec is not None
    assert spec.origin == str(HOUSE / room / "__init__.py")


def test_rooms_resolve_from_elsewhere_too(tmp_path: Path) -> None:
    code = f"import {', '.join(ROOMS)}; print(*(m.__file__ for m in ({', '.join(ROOMS)})), sep='\\n')"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.split() == [str(HOUSE / room / "__init__.py") for room in ROOMS]


def test_only_one_of_each_exclusive_pair_is_installed() -> None:
    names = {distribution.metadata["Name"].lower() for distribution in distributions()}
    for family in ("faiss", "onnxruntime"):
        assert len({n for n in names if n == family or n.startswith(f"{family}-")}) == 1


def test_no_file_is_too_long() -> None:
    sources = [
        p
        for room in (*ROOMS, "tests")
        for p in (HOUSE / room).rglob("*")
        if p.suffix in (".py", ".js", ".css")
    ]
    assert len(sources) > 50
    long = [str(path) for path in sources if len(path.read_text(encoding="utf-8").splitlines()) > MOST_LINES]
    assert long == []


@pytest.mark.parametrize(
    "module", ["app.main", "index.collection", "renderers.sandbox", "training.data.furniture"]
)
def test_serving_imports_no_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
