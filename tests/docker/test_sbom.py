"""The list of what an image is made of."""

import json
import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2]
SBOM = HOUSE / "docker" / "sbom.py"


def written(path: Path) -> bytes:
    subprocess.run([sys.executable, SBOM, path], check=True)
    return path.read_bytes()


def test_everything_installed_is_listed_once_and_always_the_same(tmp_path: Path) -> None:
    first = written(tmp_path / "a")
    assert first == written(tmp_path / "b")
    told = json.loads(first)
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
    assert told["metadata"]["component"]["name"] == "multifold"
    parts = told["components"]
    names = [part["bom-ref"] for part in parts]
    assert len(set(names)) == len(names)
    by_name = {part["name"]: part for part in parts if part["purl"].startswith("pkg:pypi/")}
    assert (
        len(by_name) == len({one.metadata["Name"].lower().replace("_", "-") for one in distributions()}) - 1
    )
    assert by_name["numpy"]["licenses"]


def test_it_goes_to_the_output_too(tmp_path: Path) -> None:
    shown = subprocess.run([sys.executable, SBOM], capture_output=True, check=True).stdout
    assert shown == written(tmp_path / "a")


def test_third_party_packages_are_listed_with_their_licences(tmp_path: Path) -> None:
    page, written = HOUSE / "THIRD_PARTY.md", tmp_path / "THIRD_PARTY.md"
    written.write_bytes(page.read_bytes())
    subprocess.run([sys.executable, HOUSE / "docker" / "third_party.py", written], check=True)
    assert written.read_text() == page.read_text(), "stale: run `make third-party`"
    assert not re.findall(r"^\| (\S+) \|  \|$", written.read_text(), re.MULTILINE), (
        "packages without a licence"
    )


def test_third_party_names_every_image_of_compose() -> None:
    images = re.findall(r"image: ([\w/-]+):", (HOUSE / "docker" / "compose.yaml").read_text())
    others = {image for image in images if not image.startswith("multifold-")}
    page = (HOUSE / "THIRD_PARTY.md").read_text()
    assert {image for image in others if f"| `{image}` |" not in page} == set()
