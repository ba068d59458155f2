"""What is installed here, as CycloneDX 1.6 (sbom.py [FILE]). The same things give the same bytes."""

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
LONG = 100  # a licence said in more characters is its text, not its name
CLASS = "License :: "


def document() -> dict[str, Any]:
    """Python's packages and Debian's."""
    found = {name(one): one for one in distributions()}
    ours = found.pop(OURS, None)
    version = ours.version if ours else "unknown"
    parts = [*map(python, found.values()), *debian()]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": OURS, "version": version}},
        "components": sorted(parts, key=lambda part: part["purl"]),
    }


def name(one: Distribution) -> str:
    """As the registry writes it."""
    return re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()


def python(one: Distribution) -> dict[str, Any]:
    """One package from the registry."""
    return part(name(one), one.version, f"pkg:pypi/{name(one)}@{quote(one.version)}", licences(one))


def licences(one: Distribution) -> list[dict[str, Any]]:
    """What it says of its licence."""
    if expression := one.metadata.get("License-Expression"):
        return [{"expression": expression}]
    classes = [value for value in one.metadata.get_all("Classifier", []) if value.startswith(CLASS)]
    told = sorted(value.rpartition(" :: ")[2] for value in classes) or [one.metadata.get("License") or ""]
    return [{"license": {"name": said}} for said in told if said and len(said) < LONG]


def debian() -> list[dict[str, Any]]:
    """Packages of the system, where it is Debian's."""
    if which("dpkg-query") is None:
        return []
    asked = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}\n"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout  # noqa: S603 (no shell)
    return [
        part(package, version, f"pkg:deb/debian/{package}@{quote(version)}?arch={machine}", [])
        for package, version, machine in map(str.split, told.splitlines())
    ]


def part(called: str, version: str, purl: str, said: list[dict[str, Any]]) -> dict[str, Any]:
    """One component."""
    told = {"type": "library", "bom-ref": purl, "name": called, "version": version, "purl": purl}
    return {**told, "licenses": said} if said else told


def main() -> int:
    """Write it to the file, or to the output."""
    text = json.dumps(document(), indent=1, sort_keys=True) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
