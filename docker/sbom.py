"""What an environment is made of, as CycloneDX 1.6: sbom.py PYTHON FILE.

Python's packages come from cyclonedx-bom, which the interpreter that runs this must have; PYTHON is the one
whose packages are listed. Packages of Debian are added, if the system is one. The same packages give the same
bytes.
"""

import json
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import quote

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
TOOL = ("-m", "cyclonedx_py", "environment", "--output-reproducible", "--spec-version", "1.6")


def python_packages(interpreter: str) -> dict[str, Any]:
    """The document of an interpreter's packages."""
    command = [sys.executable, *TOOL, "--pyproject", str(PROJECT), interpreter]
    document: dict[str, Any] = json.loads(_output(command))
    return document


def debian_packages() -> list[dict[str, Any]]:
    """Components of the system."""
    if which("dpkg-query") is None:
        return []
    command = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}\n"]
    components = []
    for line in _output(command).splitlines():
        name, version, machine = line.split()
        purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={machine}"
        components.append(
            {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        )
    return components


def _output(command: list[str]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: S603 (no shell)


def main() -> int:
    """Write the document."""
    interpreter, file = sys.argv[1:]
    document = python_packages(interpreter)
    document["components"] += debian_packages()
    Path(file).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
