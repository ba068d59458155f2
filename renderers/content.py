"""The content hash of a mesh file, with that of the files it names: the key of everything derived from it."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from renderers.errors import MeshError
from renderers.files.siblings import Siblings
from renderers.limits import DEFAULT_LIMITS, Limits

_NAMES = {
    ".gltf": re.compile(rb'"uri"\s*:\s*"(?!data:)([^"]{1,1000})"'),
    ".obj": re.compile(rb"^\s*mtllib\s+(.{1,1000}?)\s*$", re.MULTILINE),
    ".mtl": re.compile(rb"^\s*(?:map_\w+|bump|disp|norm|refl)\s.*?(\S{1,1000})\s*$", re.MULTILINE),
}


def content_hash(path: Path, limits: Limits = DEFAULT_LIMITS) -> str:
    """SHA-256 of the file and of those beside it that it names, in hexadecimal digits."""
    if not path.is_file():
        raise MeshError(f"there is no file {path.name!r}.")
    digest = hashlib.sha256()
    for data in _contents(path, path.suffix.lower(), Siblings(path.parent, limits)):
        digest.update(hashlib.sha256(data).digest())
    return digest.hexdigest()


def _contents(path: Path, suffix: str, siblings: Siblings) -> Iterator[bytes]:
    data = path.read_bytes()
    yield data
    for name in _NAMES[suffix].findall(data) if suffix in _NAMES else ():
        try:
            sibling = siblings.find(name.decode(errors="replace"))
        except MeshError:
            continue  # missing or forbidden: drawing will say so
        yield from _contents(sibling, sibling.suffix.lower() if suffix == ".obj" else "", siblings)
