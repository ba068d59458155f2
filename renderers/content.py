"""The content hash of a mesh file, with that of the files it names: the key of everything derived from it."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from renderers.errors import MeshError
from renderers.files.container import read_bytes
from renderers.files.siblings import Siblings
from renderers.limits import DEFAULT_LIMITS, Limits

_NAMES = {
    ".gltf": re.compile(rb'"uri"\s*:\s*"(?!data:)([^"]{1,1000})"'),
    ".dae": re.compile(rb"<init_from[^>]*>\s*(?:<ref>)?\s*([^<]{1,1000}?)\s*<"),
    ".obj": re.compile(rb"^\s*mtllib\s+(.{1,1000}?)\s*$", re.MULTILINE),
    ".mtl": re.compile(rb"^\s*(?:map_\w+|bump|disp|norm|refl)\s.*?(\S{1,1000})\s*$", re.MULTILINE),
}


def content_hash(path: Path, limits: Limits = DEFAULT_LIMITS, within: Path | None = None) -> str:
    """SHA-256 of the file and of those beside it that it names, in hexadecimal digits."""
    digest = hashlib.sha256()
    data = read_bytes(path, limits)
    for part in _contents(data, path.suffix.lower(), Siblings(path.parent, limits, within, len(data))):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def _contents(data: bytes, suffix: str, siblings: Siblings) -> Iterator[bytes]:
    yield data
    for name in _NAMES[suffix].findall(data) if suffix in _NAMES else ():
        try:
            inner = siblings.read(name.decode(errors="replace"))
        except MeshError:
            continue  # missing or forbidden: drawing will say so
        yield from _contents(inner, ".mtl" if suffix == ".obj" else "", siblings)
