"""The structure of the source: what packages are for, who imports whom, and how calls pass arguments."""

import ast
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import LONGEST

HOUSE = Path(__file__).resolve().parent.parent
MAY_IMPORT: Mapping[str, set[str]] = {
    "multifold": set(),
    "index": {"multifold"},
    "renderers": {"multifold"},
    "training": {"multifold", "renderers"},
    "app": {"multifold", "index", "renderers"},
    "benches": {"multifold", "index", "renderers", "training", "app"},
}
ROOMS = tuple(sorted(MAY_IMPORT))
ARCHITECTURE = HOUSE / "docs" / "architecture.md"
CONTRACTS = {"contracts", "errors", "settings", "types"}  # a folder and its subfolders may both import these
PARSES = 5  # of a module, at most, but for the last one
HTTP_USERS = ("app.main", "app.http")  # and what is in app.http

# What breaks a rule today. An entry that breaks none any more fails the test of its rule.
LATE_IMPORTS: set[str] = {
    "app.http.routes.agents → multifold.agents.server",
    "app.http.routes.agents → multifold.agents.tools",
    "multifold.blender → multifold.blender.panel",
    "training.evaluate.classification → training.evaluate.linear_probe",
    "training.evaluate.opening → training.evaluate.evaluated_checkpoint",
}
CIRCLES: set[str] = set()
SIBLING_CIRCLES: set[str] = set()
PACKED_ARGUMENTS: set[str] = set()


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


def test_the_files_that_are_run_otherwise_are_there() -> None:
    assert [name for name in LONGEST if not (HOUSE / name).exists()] == []


def test_serving_imports_no_torch() -> None:
    serving = "app.main, index.collection, renderers.sandbox"
    commands = "training.commands.reader, training.commands.run_explain, training.evaluate.evaluation"
    code = f"import sys, {serving}, training.data.furniture.dataset, {commands}"
    command = [sys.executable, "-c", f"{code}; sys.exit('torch' in sys.modules)"]
    assert subprocess.run(command, check=False).returncode == 0


def test_help_of_a_command_imports_none_of_its_work() -> None:
    """So that it comes at once: these take from a tenth of a second to several."""
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    modules = set(project["entry-points"]["multifold.commands"].values())
    heavy = "'fastapi', 'faiss', 'httpx', 'onnxruntime', 'pydantic', 'sqlalchemy', 'torch'"
    code = f"import sys, {', '.join(modules)}; print(*{{{heavy}}} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


Imports = Mapping[str, set[str]]  # each module of ours with those of ours that it imports


@cache
def trees() -> Mapping[str, ast.Module]:
    paths = [path for room in ROOMS for path in (HOUSE / room).rglob("*.py")]
    return {dotted(path): parsed(path) for path in paths}


def parsed(path: Path) -> ast.Module:
    """CPython 3.11 counts how deep a parse is for the whole process: one of another thread may spoil it."""
    text = path.read_text(encoding="utf-8")
    for _ in range(PARSES):
        with suppress(SystemError):
            return ast.parse(text)
    return ast.parse(text)


@pytest.fixture(scope="module")
def imports() -> Imports:
    """All imports, also those inside functions and those for type checkers."""
    assert len(trees()) > 100
    return {name: set(imported(name, list(ast.walk(tree)))) - {name} for name, tree in trees().items()}


def test_packages_import_in_one_direction(imports: Imports) -> None:
    arrows = {(room_of(one), room_of(other)) for one, others in imports.items() for other in others}
    allowed = {(one, other) for one, others in MAY_IMPORT.items() for other in {*others, one}}
    assert arrows - allowed == set()


def test_nothing_of_ours_is_imported_inside_a_function() -> None:
    """Only what an extra installs may be imported late: an import inside a function hides a circle."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {
        f"{name} → {target}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, functions)
        for target in imported(name, list(ast.walk(node)))
    }
    assert differences(found, LATE_IMPORTS) == {}


def test_modules_import_in_one_direction(imports: Imports) -> None:
    """Whichever is imported first, it works: a circle would depend on where one begins."""
    reached = {name: reachable(imports, name) for name in imports}
    found = {
        f"{one} → {other}" for one, others in imports.items() for other in others if one in reached[other]
    }
    assert differences(found, CIRCLES) == {}


def test_a_folder_and_its_subfolder_do_not_import_each_other(imports: Imports) -> None:
    """What lies directly in a folder imports its subfolders or is imported by them; contracts may be both."""
    ways: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for source, target in ((one, other) for one, others in imports.items() for other in others):
        low, high = folder_of(source), folder_of(target)
        if low.startswith(f"{high}.") and target.rpartition(".")[2] not in CONTRACTS:
            ways[high, low.removeprefix(f"{high}.").split(".")[0]]["up"] = f"{source} → {target}"
        if high.startswith(f"{low}.") and source.rpartition(".")[2] not in CONTRACTS:
            ways[low, high.removeprefix(f"{low}.").split(".")[0]]["down"] = f"{source} → {target}"
    assert {pair: arrows for pair, arrows in ways.items() if len(arrows) == 2} == {}


def test_folders_side_by_side_import_in_one_direction(imports: Imports) -> None:
    """Of two folders in one, with all that is in them, one knows the other; both may know contracts."""
    ways = {
        siblings(source, target)
        for source, targets in imports.items()
        for target in targets
        if target.rpartition(".")[2] not in CONTRACTS
    }
    found = {f"{one} ↔ {other}" for one, other in ways if one < other and (other, one) in ways}
    assert differences(found, SIBLING_CIRCLES) == {}


def test_http_is_imported_by_the_application_alone(imports: Imports) -> None:
    """Routes and bodies are the outermost layer: what they call does not know them."""
    found = {
        f"{one} → {other}"
        for one, others in imports.items()
        for other in others
        if f"{other}.".startswith("app.http.")
        and not f"{one}.".startswith(tuple(f"{user}." for user in HTTP_USERS))
    }
    assert found == set()


def test_no_tuple_hides_which_argument_is_which() -> None:
    """A call spreads a tuple alone, or where any number is taken, or if it passes on its own *args."""
    takes_any = takes_any_number()
    found = {
        f"{name} → {function}"
        for name, tree in trees().items()
        for function in calls_beside_others(tree)
        if takes_any.get(function) is False
    }
    assert differences(found, PACKED_ARGUMENTS) == {}


def test_a_package_says_what_is_inside() -> None:
    packages = [path for room in ROOMS for path in (HOUSE / room).rglob("__init__.py")]
    assert [str(path) for path in packages if not ast.get_docstring(trees()[dotted(path)])] == []


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def differences(found: set[str], known: set[str]) -> dict[str, list[str]]:
    """What is found and not known, and what is known and no longer found."""
    both = {"new": sorted(found - known), "no longer there": sorted(known - found)}
    return {name: lines for name, lines in both.items() if lines}


def room_of(module: str) -> str:
    return module.partition(".")[0]


def folder_of(module: str) -> str:
    """The package that a module lies in; a package lies in itself."""
    return module if HOUSE.joinpath(*module.split(".")).is_dir() else module.rpartition(".")[0]


def siblings(source: str, target: str) -> tuple[str, str]:
    """The folders of two modules up to where their ways part; the same twice if one lies above the other."""
    ways = folder_of(source).split("."), folder_of(target).split(".")
    parting = next((place for place, (one, other) in enumerate(zip(*ways, strict=False)) if one != other), 0)
    return ".".join(ways[0][: parting + 1]), ".".join(ways[1][: parting + 1])


def dotted(path: Path) -> str:
    parts = path.relative_to(HOUSE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(module: str, nodes: list[ast.AST]) -> Iterator[str]:
    """The modules of ours that these statements of a module import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in trees())
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                above = folder_of(module).split(".")
                source = ".".join([*above[: len(above) - node.level + 1], *filter(None, [node.module])])
            if source in trees():
                within = [f"{source}.{alias.name}" for alias in node.names]
                yield from (one if one in trees() else source for one in within)


def reachable(imports: Imports, start: str) -> set[str]:
    """All modules that a module imports, also by others."""
    found, waiting = set[str](), [start]
    while waiting:
        new = imports[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def takes_any_number() -> dict[str, bool]:
    """Whether a function or class of ours takes any number of arguments, by its plain name.

    Where several have a name, one that does is enough. Classes that inherit their arguments are left out.
    """
    known: dict[str, bool] = {}
    for node in (node for tree in trees().values() for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            known[node.name] = known.get(node.name, False) or node.args.vararg is not None
        elif isinstance(node, ast.ClassDef):
            made = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            if made or fields:
                known[node.name] = known.get(node.name, False) or any(
                    one.args.vararg is not None for one in made
                )
    return known


def calls_beside_others(tree: ast.Module) -> Iterator[str]:
    """The names of functions that are called with `*something` beside other positional arguments."""
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    passed_on = {one.args.vararg.arg for one in functions if one.args.vararg is not None}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > 1):
        spread = [one.value for one in call.args if isinstance(one, ast.Starred)]
        if any(not (isinstance(one, ast.Name) and one.id in passed_on) for one in spread):
            if isinstance(call.func, ast.Name):
                yield call.func.id
            elif isinstance(call.func, ast.Attribute):
                yield call.func.attr


def budgets() -> dict[str, int]:
    """The lines that each room may have, as the architecture tells them."""
    rows = [line.strip("| \n").split(" | ") for line in ARCHITECTURE.read_text("utf-8").splitlines()]
    place = next(place for place, row in enumerate(rows) if {*row} == {*ROOMS})
    return {
        room: int(count.replace(",", "")) for room, count in zip(rows[place], rows[place + 2], strict=True)
    }


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_keeps_to_its_budget(room: str) -> None:
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in (HOUSE / room).rglob("*.py"))
    print(f"{room}: {lines:,} of {budgets()[room]:,} lines")
    assert lines <= budgets()[room]
