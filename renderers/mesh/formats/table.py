"""The formats of meshes that are read: what each declares of itself, without its reader.

A service knows formats and opens none; readers run in processes of their own (`renderers/mesh/load.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from renderers.contracts import Axis

NamedFiles: TypeAlias = Mapping[str, re.Pattern[bytes]]  # by suffix: what names files that it needs


@dataclass(frozen=True, kw_only=True, eq=False)
class MeshFormat:
    """A format of meshes."""

    name: str  # of its reader
    suffixes: tuple[str, ...]
    media_types: Mapping[str, str] = field(default_factory=dict)  # with the suffix that each stands for
    signatures: Mapping[bytes, str] = field(default_factory=dict)  # how a file begins, with its suffix
    packages: tuple[str, ...] = ()  # suffixes of files that are archives
    named_files: NamedFiles = field(default_factory=dict)
    up: tuple[Axis, str] | None = None  # the axis that points up where no file says so, and why


GLB_MAGIC = b"glTF"
_GLTF = re.compile(rb'"uri"\s*:\s*"(?!data:)([^"]{1,1000})"')
_MTL = re.compile(rb"^\s*(?:map_\w+|bump|disp|norm|refl)\s.*?(\S{1,1000})\s*$", re.MULTILINE)
FORMATS = (
    MeshFormat(
        name="gltf",
        suffixes=(".glb", ".gltf"),
        media_types={"model/gltf-binary": ".glb", "model/gltf+json": ".gltf"},
        signatures={GLB_MAGIC: ".glb"},
        named_files={".glb": _GLTF, ".gltf": _GLTF},
        up=("y", "glTF is Y up"),
    ),
    MeshFormat(
        name="obj",
        suffixes=(".obj",),
        media_types={"model/obj": ".obj"},
        named_files={".obj": re.compile(rb"^\s*mtllib\s+(.{1,1000}?)\s*$", re.MULTILINE), ".mtl": _MTL},
    ),
    MeshFormat(
        name="ply",
        suffixes=(".ply",),
        media_types={"model/ply": ".ply"},
        signatures={b"ply": ".ply"},
        named_files={".ply": re.compile(rb"^comment TextureFile\s+(.{1,1000}?)\s*$", re.MULTILINE)},
    ),
    MeshFormat(
        name="stl",
        suffixes=(".stl",),
        media_types={"model/stl": ".stl"},
        signatures={b"solid": ".stl"},
        up=("z", "STL files come from CAD and printing, where Z is up"),
    ),
    MeshFormat(name="off", suffixes=(".off",), signatures={b"OFF": ".off"}),
    MeshFormat(name="3mf", suffixes=(".3mf",), packages=(".3mf",), up=("z", "3MF is Z up")),
    MeshFormat(
        name="collada",
        suffixes=(".dae",),
        named_files={".dae": re.compile(rb"<init_from[^>]*>\s*(?:<ref>)?\s*([^<]{1,1000}?)\s*<")},
    ),
    MeshFormat(name="step", suffixes=(".step", ".stp"), up=("z", "CAD is Z up")),
    MeshFormat(
        name="usd",
        suffixes=(".usdz", ".usd", ".usda", ".usdc"),
        media_types={"model/vnd.usdz+zip": ".usdz"},
        packages=(".usdz",),
        named_files={".usda": re.compile(rb"@([^@\n]{1,1000})@")},
    ),
)

FORMAT_OF = {suffix: one for one in FORMATS for suffix in one.suffixes}
EXTENSIONS = tuple(FORMAT_OF)
PACKAGES = tuple(suffix for one in FORMATS for suffix in one.packages)
NAMED_FILES: NamedFiles = {suffix: names for one in FORMATS for suffix, names in one.named_files.items()}
MEDIA_TYPES = {media_type: suffix for one in FORMATS for media_type, suffix in one.media_types.items()}
SIGNATURES = {start: suffix for one in FORMATS for start, suffix in one.signatures.items()}

assert len(EXTENSIONS) == sum(len(one.suffixes) for one in FORMATS), "a suffix belongs to one format"
assert {*PACKAGES, *MEDIA_TYPES.values(), *SIGNATURES.values()} <= {*EXTENSIONS}, "they stand for suffixes"
