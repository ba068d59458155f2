"""Which views a mesh gave: remembered by its content hash and by how it was drawn.

Derived: without it, a second ingest would only draw and encode everything again.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from multifold.bundle import ViewSpec


class Drawn:
    """A folder of small files, one a mesh, naming the blobs of its views."""

    def __init__(self, folder: Path, spec: ViewSpec) -> None:
        self._folder = folder
        self._spec = json.dumps(asdict(spec), sort_keys=True)

    def get(self, content: str) -> tuple[str, ...] | None:
        """The keys of its views; None if this mesh was not drawn yet, or was drawn otherwise."""
        try:
            keys = json.loads(self._path(content).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return tuple(keys)

    def put(self, content: str, keys: tuple[str, ...]) -> None:
        """Remember them."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path(content).write_text(json.dumps(keys), encoding="utf-8")

    def _path(self, content: str) -> Path:
        name = hashlib.sha256(f"{content} {self._spec}".encode())
        return self._folder / f"{name.hexdigest()}.json"
