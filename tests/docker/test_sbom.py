"""The list of what an image is made of, and the page with licences."""

import json
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
SBOM = HOUSE / "docker" / "sbom.py"


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment that holds pip alone, or what Python puts beside it."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def written(interpreter: Path, path: Path) -> bytes:
    subprocess.run([sys.executable, SBOM, interpreter, path], check=True)
    return path.read_bytes()


@pytest.mark.slow
def test_everything_installed_is_listed_once_and_always_the_same(interpreter: Path, tmp_path: Path) -> None:
    first = written(interpreter, tmp_path / "a")
    assert first == written(interpreter, tmp_path / "b")
    document = json.loads(first)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["name"] == "multifold"
    parts = document["components"]
    names = [part["bom-ref"] for part in parts]
    assert len(set(names)) == len(names)
    ours = {part["name"]: part for part in parts if part["purl"].startswith("pkg:pypi/")}
    assert ours.keys() - {"setuptools"} == {"pip"}
    assert ours["pip"]["licenses"]


def test_third_party_packages_are_listed_with_their_licences(tmp_path: Path) -> None:
    page, written = HOUSE / "THIRD_PARTY.md", tmp_path / "THIRD_PARTY.md"
    written.write_bytes(page.read_bytes())
    subprocess.run([sys.executable, HOUSE / "docker" / "third_party.py", written], check=True)
    assert written.read_text() == page.read_text(), "stale: run `make third-party`"
    assert not re.findall(r"^\| (\S+) \| (UNKNOWN)? \|$", written.read_text(), re.MULTILINE), (
        "packages without a licence"
    )


def test_third_party_names_every_image_of_compose() -> None:
    images = re.findall(r"image: ([\w/-]+):", (HOUSE / "docker" / "compose.yaml").read_text())
    others = {image for image in images if not image.startswith("multifold-")}
    page = (HOUSE / "THIRD_PARTY.md").read_text()
    assert {image for image in others if f"| `{image}` |" not in page} == set()
