"""A mesh file from outside: its bytes, the files beside it, and what readers return."""

import base64
import hashlib
import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import unquote

import numpy as np
from jaxtyping import Int

from renderers.contracts import DEFAULT_LIMITS, Axis, MeshError, MeshLimits, MeshPart, MissingFileError
from renderers.mesh.formats.table import EXTENSIONS, GLB_MAGIC, NAMED_FILES, PACKAGES

CONVERTERS = {
    **dict.fromkeys((".brep", ".iges", ".igs"), "FreeCAD"),
    **dict.fromkeys((".dwg", ".dxf"), "AutoCAD or Blender"),
    **dict.fromkeys((".ma", ".mb"), "Maya with its glTF exporter"),
    ".3dm": "Rhino (Export Selected > glTF)",
    ".3ds": "Blender or assimp",
    ".abc": "Blender",
    ".blend": "Blender (File > Export > glTF 2.0)",
    ".c4d": "Cinema 4D (Export > glTF)",
    ".f3d": "Fusion (Export > STEP)",
    ".fbx": "FBX2glTF or Blender",
    ".lwo": "LightWave or Blender",
    ".max": "3ds Max (Export > glTF)",
    ".skp": "SketchUp (Export > glTF)",
    ".sldprt": "SolidWorks (Save as STEP)",
    ".wrl": "MeshLab",
    ".x3d": "MeshLab or Blender",
}
_ARCHIVES = (b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"7z\xbc\xaf", b"Rar!", b"BZh", b"\xfd7zXZ")
_PLY_HEADER = 1 << 16  # bytes in which a PLY file names its texture
_PEEK = 1 << 18  # bytes in which most files name all others that they need


def suffix_of(path: Path) -> str:
    """The lower-case extension, if files of this kind are read."""
    suffix = path.suffix.lower()
    if suffix in EXTENSIONS:
        return suffix
    readable = ", ".join(extension[1:] for extension in EXTENSIONS)
    if suffix in CONVERTERS:
        raise MeshError(f"{suffix[1:]} files are not read. Convert it to glb with {CONVERTERS[suffix]}.")
    if suffix in (".zip", ".gz", ".7z", ".rar", ".tar", ".xz", ".bz2"):
        raise MeshError("archives are not opened. Unpack it and send the mesh file itself.")
    raise MeshError(
        f"{suffix or 'files without an extension'}: unknown kind of mesh file; {readable} are read."
    )


def read_bytes(path: Path, limits: MeshLimits) -> bytes:
    """The bytes of the file, its size checked first; no archives."""
    if not path.is_file():
        raise MeshError(f"there is no file {path.name!r}.")
    size = path.stat().st_size
    if size == 0:
        raise MeshError("the file is empty. Export it anew.")
    if size > limits.file_bytes:
        raise MeshError(f"the file is {size:,} bytes long; at most {limits.file_bytes:,} are read.")
    with open(path, "rb") as source:
        data = source.read(size)
    if data.startswith(_ARCHIVES) and suffix_of(path) not in PACKAGES:
        raise MeshError("the file is an archive, whatever its name says. Unpack it and send the mesh itself.")
    return data


def split_glb(data: bytes) -> tuple[bytes, bytes]:
    """The JSON and the binary chunk of a GLB file."""
    if not data.startswith(GLB_MAGIC):
        raise MeshError("this is not a GLB file, although its name says so.")
    if len(data) < 20:
        raise MeshError("the GLB file is cut short.")
    version = struct.unpack_from("<I", data, 4)[0]
    if version != 2:
        raise MeshError(f"this is a GLB file of version {version}; version 2 is read.")
    chunks = dict[bytes, bytes]()
    start = 12
    while start + 8 <= len(data) and b"BIN\0" not in chunks:
        length, kind = struct.unpack_from("<I4s", data, start)
        chunks.setdefault(kind, data[start + 8 : start + 8 + length])
        start += 8 + length
        if start > len(data) or b"JSON" not in chunks:
            raise MeshError("the GLB file is cut short or damaged.")
    return chunks[b"JSON"], chunks.get(b"BIN\0", b"")


def parse_json(data: bytes) -> dict[str, Any]:
    """The glTF tree, which must be an object of glTF 2."""
    try:
        tree = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise MeshError("the glTF description in the file is not valid JSON.") from error
    if not isinstance(tree, dict) or not isinstance(tree.get("asset", {}), dict):
        raise MeshError("the glTF description in the file is not an object.")
    if not str(tree.get("asset", {}).get("version", "2.0")).startswith("2"):
        raise MeshError("this is glTF 1; glTF 2 is read. Convert it with gltf-pipeline.")
    return tree


@dataclass
class SiblingFiles:
    """Reads files of one folder; lists those that were read, are missing or were refused."""

    folder: Path
    limits: MeshLimits
    within: Path | None = None  # the outermost folder that may be read from; the mesh's own if not given
    bytes_read: int = 0
    mesh: Path | None = None  # itself, for libraries that open it by its name
    refused: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)

    def read(self, name: str) -> bytes:
        """The bytes of a file in the folder; `name` is a path or a URI relative to it."""
        path = self.find(name)
        most = self.limits.file_bytes - self.bytes_read
        with open(path, "rb") as source:
            data = source.read(most + 1)
        if len(data) > most:
            raise MeshError(
                f"the file and those it needs are larger than {self.limits.file_bytes:,} bytes. "
                "Simplify it or shrink its textures first."
            )
        self.bytes_read += len(data)
        self.paths.append(path)
        return data

    def find(self, name: str) -> Path:
        """Where a file of the folder lies."""
        root = (self.within or self.folder).resolve()
        outside = False
        for path in _candidates(self.folder.resolve(), name):
            if not path.is_relative_to(root):
                outside = True
            elif path.is_file():
                return path
        if outside:
            self.refused.append(name)
            raise refuse_outside(name)
        self.missing.append(name)
        raise MissingFileError(
            f"the file needs {name[:80]!r}, which does not lie beside it. Send them together."
        )


def refuse_outside(name: str) -> MeshError:
    """The refusal of a mesh that names a file outside its folder."""
    return MeshError(
        f"the file asks for {name[:80]!r}, which lies outside its folder. Put it beside the mesh."
    )


def _candidates(home: Path, name: str) -> Iterator[Path]:
    """As written, unquoted, and by its last part: exporters write absolute paths of their own machine."""
    slashed = unquote(name.strip()).replace("\\", "/")
    for spelling in dict.fromkeys((name.strip(), slashed, slashed.rsplit("/", 1)[-1])):
        absolute = PurePosixPath(spelling).is_absolute() or PureWindowsPath(spelling).drive != ""
        if spelling and not absolute:
            try:
                path = (home / spelling).resolve()
                path.is_file()
            except (OSError, ValueError, RuntimeError):
                continue  # too long, not a name at all, or a loop of links
            yield path


def read_uri(uri: str, siblings: SiblingFiles) -> bytes:
    """A data URI decoded, or the file beside the mesh."""
    if not uri.startswith("data:"):
        return siblings.read(uri)
    header, _, payload = uri.partition(",")
    try:
        if header.endswith(";base64"):
            return base64.b64decode(payload)
    except ValueError:
        pass
    raise MeshError("the file is damaged: a data URI in it is not base64.")


def check_indices(indices: Int[np.ndarray, "..."], count: int) -> None:
    """Refuse faces that name vertices beyond the last one."""
    if indices.size and not 0 <= indices.min() <= indices.max() < count:
        raise MeshError("the file is damaged: a face names a vertex that does not exist.")


@dataclass(frozen=True, eq=False)
class MeshContents:
    """Parts in the file's own axes and units."""

    parts: list[MeshPart]
    notes: list[str]
    up: Axis | None = None  # where the file itself says which axis points up
    metres: float | None = None  # the length of its unit, where the file or its format says so
    animated: bool = False


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
    return ContentDigest(digest.hexdigest(), (path, *siblings.paths), (*siblings.missing, *siblings.refused))


def content_hash(path: Path, limits: MeshLimits = DEFAULT_LIMITS, within: Path | None = None) -> str:
    """The same, the hash alone."""
    return digest_content(path, limits, within).hash


def find_companions(path: Path, within: Path) -> tuple[Path, ...]:
    """The files that a mesh names, as far as they are there; none if it cannot be read."""
    try:
        return digest_content(path, within=within).files[1:]
    except (MeshError, OSError):
        return ()


def peek_companions(path: Path, within: Path) -> tuple[Path, ...]:
    """The files that a mesh names at its beginning. It is fast with large files, and may miss some."""
    siblings = SiblingFiles(path.parent, DEFAULT_LIMITS, within)

    def look(file: Path, suffix: str) -> Iterator[Path]:
        if (pattern := NAMED_FILES.get(suffix)) is None:
            return
        with open(file, "rb") as source:
            names = pattern.findall(source.read(_PEEK))
        for name in names:
            with suppress(MeshError):
                found = siblings.find(name.decode(errors="replace"))
                yield found
                yield from look(found, ".mtl" if suffix == ".obj" else "")

    with suppress(OSError):
        return tuple(look(path, path.suffix.lower()))
    return ()


def _contents(data: bytes, suffix: str, siblings: SiblingFiles) -> Iterator[bytes]:
    yield data
    try:
        head = split_glb(data)[0] if suffix == ".glb" else data[: _PLY_HEADER if suffix == ".ply" else None]
    except MeshError:
        return  # not a GLB file: loading it will say so
    for name in NAMED_FILES[suffix].findall(head) if suffix in NAMED_FILES else ():
        try:
            inner = siblings.read(name.decode(errors="replace"))
        except MeshError:
            continue  # missing or forbidden: loading the mesh will say so
        yield from _contents(inner, ".mtl" if suffix == ".obj" else "", siblings)
