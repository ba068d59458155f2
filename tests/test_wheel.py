"""The published wheel holds the kernel, imports whole, and says where other packages are to be had."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parent.parent
MODULES = [path.relative_to(HOUSE) for path in sorted((HOUSE / "multifold").rglob("*.py"))]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(HOUSE)], check=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment with the wheel and the kernel's own dependencies, no extra."""
    folder = tmp_path_factory.mktemp("env")
    subprocess.run([sys.executable, str(HOUSE / "install.py"), str(folder), str(wheel)], check=True)
    return folder / "bin" / "python"


@pytest.mark.slow
def test_the_wheel_holds_the_kernel_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"multifold"}
    assert {path.as_posix() for path in MODULES} <= set(names)


@pytest.mark.slow
def test_every_module_imports_or_names_its_extra(python: Path, tmp_path: Path) -> None:
    of_blender = Path("multifold/blender/panel.py")  # Blender alone can import it
    paths = [path for path in MODULES if path.name[0] != "_" and path != of_blender]
    modules = [".".join(path.with_suffix("").parts) for path in paths]
    code = (
        "import importlib\n"
        "from multifold.errors import MissingExtraError\n"
        f"for name in {modules}:\n"
        "    try: importlib.import_module(name)\n"
        "    except MissingExtraError as error:\n"
        "        extras = (\"'cpu'\", \"'render'\", \"'mcp'\", \"'serve'\")\n"
        "        assert any(extra in str(error) for extra in extras), error\n"
    )
    subprocess.run([str(python), "-c", code], cwd=tmp_path, check=True)


@pytest.mark.slow
def test_a_missing_package_says_where_to_get_it(python: Path, tmp_path: Path) -> None:
    command = [str(python.parent / "multifold"), "train"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "needs the package 'training'" in found.stderr
    assert "run it from a clone" in found.stderr
