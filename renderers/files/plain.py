"""OBJ, PLY, STL and OFF files -> parts, parsed by trimesh.

Their declared sizes are checked first, siblings go through our own reader, and whatever the parsers raise
becomes one error.
"""

import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64
from PIL import Image

from multifold.errors import needs_extra
from renderers.color import to_linear
from renderers.errors import MeshError
from renderers.files.siblings import Siblings
from renderers.limits import Limits
from renderers.model import Material, Part, Texture
from renderers.textures import color_texture, pyramid, shrink
from renderers.transform import moved

with needs_extra("render"):
    import trimesh
    from trimesh.resolvers import Resolver

_NO_COLOR = (102, 102, 102)  # what trimesh puts where a file names no colour
_STL_HEADER, _STL_FACE = 84, 50
_CUT_OUT = 0.01  # a picture this transparent, used without a word about alpha, is a cut-out


def read(data: bytes, suffix: str, siblings: Siblings, limits: Limits) -> tuple[list[Part], list[str]]:
    """The parts of the file; notes are empty as yet."""
    _check_declared(data, suffix, limits)
    resolver = _SiblingResolver(siblings)
    try:
        scene = trimesh.load_scene(
            io.BytesIO(data), file_type=suffix[1:], resolver=resolver, process=False, maintain_order=True
        )
        parts = list(_parts(scene, suffix, limits))
    except MeshError:
        raise
    except Exception as error:  # parsers raise every kind on bad input
        raise MeshError(
            f"the {suffix[1:]} file is damaged: {type(error).__name__}: {error!s:.200}"
        ) from error
    if siblings.refused:
        raise MeshError(
            f"the file asks for {siblings.refused[0]!r}, which lies outside its folder. "
            "Put it beside the mesh."
        )
    return parts, []


class _SiblingResolver(Resolver):
    """Hands trimesh our own reader of siblings."""

    def __init__(self, siblings: Siblings) -> None:
        self.siblings = siblings

    def get(self, key: str) -> bytes:
        return self.siblings.read(key)

    def write(self, name: str, data: bytes) -> None:
        raise OSError(f"{name}: {len(data)} bytes not written; nothing is while a mesh is read")

    def namespaced(self, namespace: str) -> "_SiblingResolver":
        folder = self.siblings.folder / namespace
        return _SiblingResolver(Siblings(folder, self.siblings.limits))

    def keys(self) -> list[str]:
        return sorted(path.name for path in self.siblings.folder.iterdir() if path.is_file())


def _check_declared(data: bytes, suffix: str, limits: Limits) -> None:
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


def _check_count(kind: str, count: int, size: int, limits: Limits) -> None:
    what, most = ("vertices", limits.vertices) if kind == "vertex" else ("faces", limits.faces)
    limits.check(what, count, most)
    if count > size:
        raise MeshError(f"the file declares {count:,} {what} but is only {size:,} bytes long.")


def _parts(scene: Any, suffix: str, limits: Limits) -> Iterator[Part]:  # noqa: ANN401 (trimesh is not typed)
    materials: dict[int, Material] = {}
    faces_so_far = 0
    for node in scene.graph.nodes_geometry:
        matrix, name = scene.graph[node]
        geometry = scene.geometry[name]
        faces = np.asarray(getattr(geometry, "faces", ()), np.int64)
        if faces.ndim != 2 or not len(faces):
            continue
        faces_so_far += len(faces)
        limits.check("faces", faces_so_far, limits.faces)
        if faces.min() < 0 or faces.max() >= len(geometry.vertices):
            raise MeshError("the file is damaged: a face names a vertex that does not exist.")
        yield _part(geometry, faces, matrix, suffix, materials, limits)


def _part(
    geometry: Any,  # noqa: ANN401 (trimesh is not typed)
    faces: Int64[np.ndarray, "f 3"],
    matrix: Float64[np.ndarray, "4 4"],
    suffix: str,
    materials: dict[int, Material],
    limits: Limits,
) -> Part:
    visual = geometry.visual
    vertices = moved(np.asarray(geometry.vertices, np.float64), matrix)
    if visual.kind == "face":
        colors = _linear(np.asarray(visual.face_colors)).repeat(3, axis=0)
        unshared = np.arange(3 * len(faces)).reshape(-1, 3)
        return Part(vertices[faces].reshape(-1, 3), unshared, _white(), colors=colors)
    if visual.kind == "vertex":
        return Part(
            vertices, faces, _white(), _normals(geometry, suffix), colors=_linear(visual.vertex_colors)
        )
    source = getattr(visual, "material", None)
    if id(source) not in materials:
        materials[id(source)] = _material(source, limits)
    return Part(
        vertices, faces, materials[id(source)], _normals(geometry, suffix), _uv(visual, len(vertices))
    )


def _white() -> Material:
    return Material(base=(1.0, 1.0, 1.0, 1.0))


def _normals(geometry: Any, suffix: str) -> Float32[np.ndarray, "n 3"] | None:  # noqa: ANN401
    """Normals that the file brought; STL's say nothing that its triangles don't."""
    if suffix == ".stl" or "vertex_normals" not in geometry._cache:
        return None
    return np.asarray(geometry.vertex_normals, np.float32)


def _uv(visual: Any, count: int) -> Float32[np.ndarray, "n 2"] | None:  # noqa: ANN401
    """Texture coordinates with their origin moved from the bottom to the top."""
    uv = getattr(visual, "uv", None)
    if uv is None or np.shape(uv)[0] != count:
        return None
    flipped = np.array(np.asarray(uv)[:, :2], np.float32)
    flipped[:, 1] = 1 - flipped[:, 1]
    return flipped


def _linear(colors: Any) -> Float32[np.ndarray, "n 4"]:  # noqa: ANN401
    """sRGB bytes with alpha as linear light."""
    pixels = np.asarray(colors, np.uint8)
    light = to_linear(pixels)
    light[:, 3] = pixels[:, 3] / np.float32(255)
    return light


def _material(source: Any, limits: Limits) -> Material:  # noqa: ANN401
    """An MTL material: its diffuse colour or its picture, and no more."""
    if source is None:
        return Material()
    picture = getattr(source, "image", getattr(source, "baseColorTexture", None))
    if picture is not None:
        texture, cut_out = _texture(picture, limits)
        return Material(
            base=(1.0, 1.0, 1.0, 1.0), base_texture=texture, alpha_mode="MASK" if cut_out else "OPAQUE"
        )
    diffuse = getattr(source, "diffuse", None)
    bytes_ = np.asarray(_NO_COLOR if diffuse is None else diffuse).astype(np.int64).clip(0, 255)[:3]
    if tuple(bytes_) == _NO_COLOR:
        return Material()
    red, green, blue = (float(part) for part in to_linear(bytes_.astype(np.uint8)))
    return Material(base=(red, green, blue, 1.0))


def _texture(picture: Image.Image, limits: Limits) -> tuple[Texture, bool]:
    limits.check("pixels in one texture", picture.width * picture.height, limits.image_pixels)
    pixels = shrink(picture, limits.texture_side)
    cut_out = bool((pixels[..., 3] < 128).mean() > _CUT_OUT)
    return pyramid(color_texture(pixels)), cut_out
