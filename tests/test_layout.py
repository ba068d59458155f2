"""The structure of the source: where packages lie, what folders hold, who imports whom, how long ways are."""

import ast
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from graphlib import TopologicalSorter
from importlib.metadata import distributions
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest

from tests import tiny
from tests.conftest import LONGEST

HOUSE = Path(__file__).resolve().parent.parent
ROOMS = ("app", "benches", "index", "multifold", "renderers", "training")
MOST_LINES = 400
MOST_MODULES = 15
CONTRACTS = {
    "contracts",
    "errors",
    "settings",
    "types",
}  # modules that both a folder and its subfolders may import
SAME_NAME: Mapping[str, str] = {}  # public classes of one name, at most five, each with the reason
MOST_FILES = {"search": 25, "upsert": 28, "ingest": 40}  # of the repository, on the way of one call


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


def test_the_files_that_begin_first_are_there() -> None:
    assert [name for name in LONGEST if not (HOUSE / name).is_file()] == []


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
    "module",
    [
        "app.main",
        "index.collection",
        "renderers.sandbox",
        "training.data.furniture.dataset",
        "training.commands.reader",
    ],
)
def test_serving_imports_no_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """Each module with those of ours that it imports."""
    modules = {dotted(path): path for room in ROOMS for path in (HOUSE / room).rglob("*.py")}
    assert len(modules) > 100
    return {name: set(imported(path, modules)) for name, path in modules.items()}


def test_modules_import_in_one_direction(graph: dict[str, set[str]]) -> None:
    """Whichever is imported first, it works: a circle would depend on where one begins."""
    TopologicalSorter(graph).prepare()  # raises where there is a circle


def test_a_folder_and_its_subfolder_do_not_import_each_other(graph: dict[str, set[str]]) -> None:
    """What lies directly in a folder imports its subfolders or is imported by them; contracts may be both."""
    ways: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for source, target in ((one, other) for one, others in graph.items() for other in others):
        low, high = folder_of(source), folder_of(target)
        if low.startswith(f"{high}.") and target.rpartition(".")[2] not in CONTRACTS:
            ways[high, low.removeprefix(f"{high}.").split(".")[0]]["up"] = f"{source} → {target}"
        if high.startswith(f"{low}.") and source.rpartition(".")[2] not in CONTRACTS:
            ways[low, high.removeprefix(f"{low}.").split(".")[0]]["down"] = f"{source} → {target}"
    assert {pair: arrows for pair, arrows in ways.items() if len(arrows) == 2} == {}


def test_a_folder_holds_few_modules() -> None:
    folders = {path.parent for room in ROOMS for path in (HOUSE / room).rglob("*.py")}
    counts = {
        str(one.relative_to(HOUSE)): len([p for p in one.glob("*.py") if p.stem != "__init__"])
        for one in folders
    }
    assert {name: count for name, count in counts.items() if count > MOST_MODULES} == {}


def test_a_package_says_what_is_inside() -> None:
    packages = [path for room in ROOMS for path in (HOUSE / room).rglob("__init__.py")]
    silent = [
        str(path) for path in packages if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in chain.from_iterable((HOUSE / room).rglob("*.py") for room in ROOMS):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(HOUSE)))
    assert {name: found for name, found in places.items() if len(found) > 1 and name not in SAME_NAME} == {}
    assert len(SAME_NAME) <= 5


def test_ways_do_not_grow(tmp_path: Path) -> None:
    """A search, an upsert and an ingest, counted in a process without the type checks of this suite."""
    tiny.build(tmp_path / "tiny")
    counted = tmp_path / "ways.json"
    command = [sys.executable, "-m", "tests.ways", str(tmp_path), str(tmp_path / "tiny"), str(counted)]
    environment = {**os.environ, "PYTHONPATH": str(HOUSE)}
    subprocess.run(command, cwd=HOUSE, env=environment, check=True, capture_output=True)
    ways: dict[str, list[str]] = json.loads(counted.read_text(encoding="utf-8"))
    grown = {name: files for name, files in ways.items() if len(files) > MOST_FILES[name]}
    assert set(ways) == set(MOST_FILES)
    assert grown == {}


def folder_of(module: str) -> str:
    """The package that a module lies in; a package lies in itself."""
    return module if HOUSE.joinpath(*module.split(".")).is_dir() else module.rpartition(".")[0]


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
