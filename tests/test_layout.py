"""The house stands as designed: rooms resolve here, files keep their size, one provider is installed."""

import ast
import subprocess
import sys
from collections.abc import Container, Iterator
from graphlib import TopologicalSorter
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
    "module", ["app.main", "index.collection", "renderers.sandbox", "training.data.furniture.dataset"]
)
def test_serving_imports_no_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_modules_import_in_one_direction() -> None:
    """Whichever is imported first, it works: a circle would depend on where one begins."""
    modules = {dotted(path): path for room in ROOMS for path in (HOUSE / room).rglob("*.py")}
    assert len(modules) > 100
    graph = {name: set(imported(path, modules)) for name, path in modules.items()}
    TopologicalSorter(graph).prepare()  # raises where there is a circle


def dotted(path: Path) -> str:
    parts = path.relative_to(HOUSE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, modules: Container[str]) -> Iterator[str]:
    """The modules of ours that a module imports when it is imported itself."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for inner in [node, *(node.body if isinstance(node, ast.With) else [])]:
            if isinstance(inner, ast.Import):
                yield from (alias.name for alias in inner.names if alias.name in modules)
            elif isinstance(inner, ast.ImportFrom) and inner.module and inner.module in modules:
                within = [f"{inner.module}.{alias.name}" for alias in inner.names]
                yield from (one if one in modules else inner.module for one in within)
