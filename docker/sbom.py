"""Installed packages as CycloneDX 1.6 (sbom.py [FILE]). The same packages give the same bytes."""

import json
import re
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import quote

OURS = "multifold"
LONG = 100  # a longer licence field is its text, not its name
CLASS = "License :: "


def document() -> dict[str, Any]:
    """Python's packages and Debian's."""
    packages = {name(one): one for one in distributions()}
    ours = packages.pop(OURS, None)
    version = ours.version if ours else "unknown"
    parts = [*map(python_component, packages.values()), *debian_components()]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": OURS, "version": version}},
        "components": sorted(parts, key=lambda part: part["purl"]),
    }


def name(one: Distribution) -> str:
    """The name of a package as the registry writes it."""
    return re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()


def python_component(one: Distribution) -> dict[str, Any]:
    """One package from the registry."""
    return component(name(one), one.version, f"pkg:pypi/{name(one)}@{quote(one.version)}", licences(one))


def licences(one: Distribution) -> list[dict[str, Any]]:
    """The licence that a package states."""
    if expression := one.metadata.get("License-Expression"):
        return [{"expression": expression}]
    classes = [value for value in one.metadata.get_all("Classifier", []) if value.startswith(CLASS)]
    names = sorted(value.rpartition(" :: ")[2] for value in classes) or [one.metadata.get("License") or ""]
    return [{"license": {"name": text}} for text in names if text and len(text) < LONG]


def debian_components() -> list[dict[str, Any]]:
    """Packages of the system, if it is Debian."""
    if which("dpkg-query") is None:
        return []
    command = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}\n"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 (no shell)
    return [
        component(package, version, f"pkg:deb/debian/{package}@{quote(version)}?arch={machine}", [])
        for package, version, machine in map(str.split, lines.splitlines())
    ]


def component(name: str, version: str, purl: str, licenses: list[dict[str, Any]]) -> dict[str, Any]:
    """One component, with its licences if they are known."""
    fields = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return {**fields, "licenses": licenses} if licenses else fields


def main() -> int:
    """Write the list to a file, or to the output."""
    text = json.dumps(document(), indent=1, sort_keys=True) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
