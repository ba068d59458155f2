"""OBJ, PLY, STL and OFF files, parsed by trimesh.

Declared sizes are checked first, files beside the mesh go through our own reader, and what the parser
returns is checked again.
"""

import io
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

from multifold.errors import needs_extra
from renderers.contracts import (
    BARE_ALBEDO,
    AlphaMode,
    Colors,
    Matrix,
    MeshError,
    MeshLimits,
    MeshMaterial,
    MeshPart,
    Normals,
    Texture,
    TextureCoordinates,
    Triangles,
)
from renderers.images.color import to_linear
from renderers.images.textures import PICTURE_FORMATS, color_texture, mip_pyramid, shrink_picture
from renderers.mesh.formats.mesh_file import MeshContents, SiblingFiles, check_indices, refuse_outside
from renderers.mesh.formats.point_cloud import point_cloud
from renderers.mesh.formats.transform import transform_points

with needs_extra("render"):
    import trimesh
    from trimesh.resolvers import Resolver

_WHITE = MeshMaterial(base=(1.0, 1.0, 1.0, 1.0))
_STL_HEADER, _STL_FACE = 84, 50


def check_declared_sizes(data: bytes, suffix: str, limits: MeshLimits) -> None:
    """The counts that a header declares, before anything is made of that size."""
    if suffix == ".stl" and data[:5].lower() != b"solid":
        count = int.from_bytes(data[80:_STL_HEADER], "little")
        limits.check("faces", count, limits.faces)
        if len(data) < _STL_HEADER + _STL_FACE * count:
            raise MeshError("the stl file is cut short, or is no STL file.")
    if suffix == ".ply":
        if not data.startswith(b"ply"):
            raise MeshError("this is not a PLY file, although its name says so.")
        header = data[: data.find(b"end_header")]
        for kind, count in re.findall(rb"element\s+(vertex|face)\s+(\d{1,18})\b", header):
            _check_count(kind.decode(), int(count), len(data), limits)
    if suffix == ".off":
        counts = re.search(rb"OFF\s+(?:#[^\n]*\s+)*(\d{1,18})\s+(\d{1,18})", data[:4096])
        if counts is None:
            raise MeshError("this is not an OFF file, although its name says so.")
        _check_count("vertex", int(counts[1]), len(data), limits)
        _check_count("face", int(counts[2]), len(data), limits)
    if suffix == ".obj":
        limits.check("faces", data.count(b"\nf "), limits.faces)
        limits.check("vertices", data.count(b"\nv "), limits.vertices)


def _check_count(kind: str, count: int, size: int, limits: MeshLimits) -> None:
    what, most = ("vertices", limits.vertices) if kind == "vertex" else ("faces", limits.faces)
    limits.check(what, count, most)
    if count > size:
        raise MeshError(f"the file declares {count:,} {what} but is only {size:,} bytes long.")


_BACKWARDS = re.compile(rb"^f\s.*[\s/]-\d", re.MULTILINE)
_KINDS = (b"v", b"vt", b"vn")  # in the order in which a corner names them


def resolve_negative_indices(data: bytes) -> bytes:
    """The file with every index counted from its beginning."""
    if not _BACKWARDS.search(data):
        return data
    totals = dict.fromkeys(_KINDS, 0)
    lines = []
    for line in data.splitlines():
        kind, _, rest = line.strip().partition(b" ")
        if kind in totals:
            totals[kind] += 1
        elif kind == b"f":
            counts = list(totals.values())
            line = b"f " + b" ".join(_corner(corner, counts) for corner in rest.split())
        lines.append(line)
    return b"\n".join(lines)


def _corner(corner: bytes, counts: list[int]) -> bytes:
    numbers = corner.split(b"/")
    return b"/".join(
        b"%d" % (int(one) + 1 + count) if one.startswith(b"-") else one
        for one, count in zip(numbers, counts, strict=False)
    )


_NO_COLOR = (102, 102, 102)  # what trimesh puts where a file names no colour
_CUT_OUT = 0.01  # a picture this transparent, used without a word about alpha, is a cut-out
_BROKEN_PICTURE = (OSError, ValueError, SyntaxError, IndexError, TypeError, EOFError)


def linear_colors(colors: Any) -> Colors:  # noqa: ANN401 (trimesh is not typed)
    """sRGB bytes with alpha as linear light."""
    pixels = np.asarray(colors, np.uint8)
    light = to_linear(pixels)
    light[:, 3] = pixels[:, 3] / np.float32(255)
    return light


@dataclass
class TrimeshMaterials:
    """Reads materials, each once; `notes` says which pictures could not be used."""

    limits: MeshLimits
    notes: list[str] = field(default_factory=list)
    _materials: dict[int, tuple[Any, MeshMaterial]] = field(default_factory=dict)  # by id(source)
    _pixels: int = 0

    def material(self, source: Any) -> MeshMaterial:  # noqa: ANN401
        """An MTL material: its diffuse colour or picture, and how far one sees through it."""
        if id(source) not in self._materials:
            self._materials[id(source)] = source, self._read(source)
        return self._materials[id(source)][1]

    def _read(self, source: Any) -> MeshMaterial:  # noqa: ANN401
        picture = getattr(source, "image", getattr(source, "baseColorTexture", None))
        texture, cut_out = (None, False) if picture is None else self._texture(picture)
        opacity = _opacity(source)
        see_through: AlphaMode = "MASK" if cut_out else "BLEND"
        return MeshMaterial(
            base=(*(_WHITE.base[:3] if texture else _diffuse(source)), opacity),
            base_texture=texture,
            alpha_mode=see_through if cut_out or opacity < 1 else "OPAQUE",
        )

    def _texture(self, picture: Image.Image) -> tuple[Texture | None, bool]:
        """The picture, and whether it has holes."""
        self._pixels += picture.width * picture.height
        self.limits.check("pixels in its textures", self._pixels, self.limits.image_pixels)
        try:
            if picture.format not in PICTURE_FORMATS:
                raise ValueError(f"{picture.format} pictures are not read")
            pixels = shrink_picture(picture, self.limits.texture_side)
        except _BROKEN_PICTURE as error:
            name = str(picture.info.get("file_path", ""))
            self.notes.append(f"drawn without the texture {name:.60}: {error!s:.100}")
            return None, False
        return mip_pyramid(color_texture(pixels)), bool((pixels[..., 3] < 128).mean() > _CUT_OUT)


def _diffuse(source: Any) -> tuple[float, float, float]:  # noqa: ANN401
    diffuse = getattr(source, "diffuse", None)
    color = np.asarray(_NO_COLOR if diffuse is None else diffuse).astype(np.int64).clip(0, 255)[:3]
    if tuple(color) == _NO_COLOR:
        return BARE_ALBEDO, BARE_ALBEDO, BARE_ALBEDO
    red, green, blue = (float(part) for part in to_linear(color.astype(np.uint8)))
    return red, green, blue


def _opacity(source: Any) -> float:  # noqa: ANN401
    """MTL's `d`; exporters that write 0 don't mean that nothing is to be seen."""
    try:
        opacity = float(source.kwargs["d"][0])
    except (AttributeError, LookupError, TypeError, ValueError):
        return 1.0
    return opacity if 0 < opacity < 1 else 1.0


def read(data: bytes, suffix: str, siblings: SiblingFiles, limits: MeshLimits) -> MeshContents:
    """The parts of the file, and notes about what could not be used."""
    check_declared_sizes(data, suffix, limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of parsers, about files that they read all the same
        scene = trimesh.load_scene(
            io.BytesIO(resolve_negative_indices(data) if suffix == ".obj" else data),
            file_type=suffix[1:],
            resolver=_SiblingResolver(siblings),
            process=False,
        )
    if siblings.refused:
        raise refuse_outside(siblings.refused[0])
    file = _File(scene, suffix, limits)
    parts = list(file.parts())
    missing = [f"drawn without {name[:60]!r}, which does not lie beside it" for name in siblings.missing]
    return MeshContents(parts, missing + file.materials.notes + file.notes)


class _SiblingResolver(Resolver):
    """Hands trimesh our own reader of siblings."""

    def __init__(self, siblings: SiblingFiles) -> None:
        self.siblings = siblings

    def get(self, key: str) -> bytes:
        # a picture may have options before its name: -s 2 2 2 wood.png
        return self.siblings.read(key.split()[-1] if key.startswith("-") else key)

    def write(self, name: str, data: bytes) -> None:
        raise OSError(f"{name}: {len(data)} bytes not written; nothing is while a mesh is read")

    def namespaced(self, namespace: str) -> "_SiblingResolver":
        raise OSError(f"{namespace}: folders are not searched")

    def keys(self) -> list[str]:
        return []


class _File:
    def __init__(self, scene: Any, suffix: str, limits: MeshLimits) -> None:  # noqa: ANN401 (trimesh is not typed)
        self.scene, self.suffix, self.limits = scene, suffix, limits
        self.materials = TrimeshMaterials(limits)
        self.notes = list[str]()

    def parts(self) -> Iterator[MeshPart]:
        count = 0
        for node in self.scene.graph.nodes_geometry:
            matrix, name = self.scene.graph[node]
            geometry = self.scene.geometry[name]
            faces = np.asarray(getattr(geometry, "faces", ()), np.int64)
            if isinstance(geometry, trimesh.PointCloud) and len(geometry.vertices):
                yield self._points(geometry, matrix)
            if faces.ndim != 2 or not len(faces):
                continue
            count += len(faces)
            self.limits.check("faces", count, self.limits.faces)
            check_indices(faces, len(geometry.vertices))
            yield self._part(geometry, faces, matrix)

    def _part(self, geometry: Any, faces: Triangles, matrix: Matrix) -> MeshPart:  # noqa: ANN401
        visual = geometry.visual
        vertices = transform_points(np.asarray(geometry.vertices, np.float64), matrix)
        if visual.kind == "face":
            colors = linear_colors(np.asarray(visual.face_colors)).repeat(3, axis=0)
            return MeshPart.unshared(vertices[faces].reshape(-1, 3), _WHITE, colors=colors)
        normals = None
        if self.suffix != ".stl" and "vertex_normals" in geometry._cache:  # STL's are those of its faces
            normals = np.asarray(geometry.vertex_normals, np.float32)
        if visual.kind == "vertex":
            return MeshPart(vertices, faces, _WHITE, normals, colors=linear_colors(visual.vertex_colors))
        material = self.materials.material(getattr(visual, "material", None))
        return MeshPart(vertices, faces, material, normals, _uv(visual, len(vertices)))

    def _points(self, geometry: Any, matrix: Matrix) -> MeshPart:  # noqa: ANN401
        points = transform_points(np.asarray(geometry.vertices, np.float64), matrix)
        colored = np.shape(geometry.colors) == (len(points), 4)
        colors, material = (linear_colors(geometry.colors), _WHITE) if colored else (None, MeshMaterial())
        part, notes = point_cloud(points, _point_normals(geometry), colors, material, self.limits)
        self.notes.extend(notes)
        return part


def _point_normals(geometry: Any) -> Normals | None:  # noqa: ANN401
    """The normals of a PLY file's points, which trimesh keeps raw."""
    columns = geometry.metadata.get("_ply_raw", {}).get("vertex", {}).get("data", {})
    count = len(geometry.vertices)
    try:
        normals = [np.asarray(columns[name], np.float32).reshape(count) for name in ("nx", "ny", "nz")]
    except (KeyError, IndexError, ValueError):
        return None
    return np.stack(normals, axis=1)


def _uv(visual: Any, count: int) -> TextureCoordinates | None:  # noqa: ANN401
    """Texture coordinates with their origin moved from the bottom to the top."""
    uv = getattr(visual, "uv", None)
    if uv is None or np.shape(uv)[0] != count:
        return None
    flipped = np.array(np.asarray(uv)[:, :2], np.float32)
    flipped[:, 1] = 1 - flipped[:, 1]
    return flipped
