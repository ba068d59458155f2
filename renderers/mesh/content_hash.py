"""The content hash of a mesh file, with that of the files it names: the key of everything derived from it."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from renderers.contracts import DEFAULT_LIMITS, MeshError, MeshLimits
from renderers.mesh.formats.mesh_file import SiblingFiles, read_bytes, split_glb

_GLTF = re.compile(rb'"uri"\s*:\s*"(?!data:)([^"]{1,1000})"')
_NAMES = {
    ".gltf": _GLTF,
    ".glb": _GLTF,
    ".dae": re.compile(rb"<init_from[^>]*>\s*(?:<ref>)?\s*([^<]{1,1000}?)\s*<"),
    ".obj": re.compile(rb"^\s*mtllib\s+(.{1,1000}?)\s*$", re.MULTILINE),
    ".mtl": re.compile(rb"^\s*(?:map_\w+|bump|disp|norm|refl)\s.*?(\S{1,1000})\s*$", re.MULTILINE),
    ".ply": re.compile(rb"^comment TextureFile\s+(.{1,1000}?)\s*$", re.MULTILINE),
}
_PLY_HEADER = 1 << 16  # bytes in which a PLY file names its texture


@dataclass(frozen=True)
class ContentDigest:
    """What a mesh is made of: its hash, the files that went into it, the names of those not there."""

    hash: str
    files: tuple[Path, ...]
    missing: tuple[str, ...]


def digest_content(
    path: Path, limits: MeshLimits = DEFAULT_LIMITS, within: Path | None = None
) -> ContentDigest:
    """SHA-256 of the file and of those beside it that it names."""
    digest = hashlib.sha256()
    data = read_bytes(path, limits)
    siblings = SiblingFiles(path.parent, limits, within, len(data))
    for part in _contents(data, path.suffix.lower(), siblings):
        digest.update(hashlib.sha256(part).digest())
    return ContentDigest(digest.hexdigest(), (path, *siblings.found), (*siblings.missing, *siblings.refused))


def content_hash(path: Path, limits: MeshLimits = DEFAULT_LIMITS, within: Path | None = None) -> str:
    """The same, the hash alone."""
    return digest_content(path, limits, within).hash


def find_companions(path: Path, within: Path) -> tuple[Path, ...]:
    """The files that a mesh names, as far as they are there; none if it cannot be read."""
    try:
        return digest_content(path, within=within).files[1:]
    except (MeshError, OSError):
        return ()


def _contents(data: bytes, suffix: str, siblings: SiblingFiles) -> Iterator[bytes]:
    yield data
    for name in _NAMES[suffix].findall(_head(data, suffix)) if suffix in _NAMES else ():
        try:
            inner = siblings.read(name.decode(errors="replace"))
        except MeshError:
            continue  # missing or forbidden: drawing will say so
        yield from _contents(inner, ".mtl" if suffix == ".obj" else "", siblings)


def _head(data: bytes, suffix: str) -> bytes:
    """The part of a file in which it names others."""
    if suffix == ".ply":
        return data[:_PLY_HEADER]
    try:
        return split_glb(data)[0] if suffix == ".glb" else data
    except MeshError:
        return b""  # no GLB file: drawing will say so
