"""glTF and GLB files -> parts in the world.

Read here rather than by trimesh: bounds, loops and instances are checked before memory is spent, and wrap
modes, texture transforms, quantised and sparse data are kept, which trimesh drops or misreads.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64, Shaped

from multifold.errors import needs_extra
from renderers.errors import MeshError
from renderers.files.accessors import Buffers, entry, normalised
from renderers.files.container import parse_json, split_glb
from renderers.files.gltf_materials import Materials
from renderers.files.gltf_scene import placed_meshes, primitives, world_matrices
from renderers.files.gltf_skin import skin_matrices, skinned
from renderers.files.siblings import Siblings
from renderers.limits import Limits
from renderers.model import Material, Part
from renderers.transform import each_rotated, moved, rotated

with needs_extra("render"):
    import DracoPy

DRACO = "KHR_draco_mesh_compression"
SUPPORTED = {
    DRACO,
    "KHR_texture_transform",
    "KHR_mesh_quantization",
    "EXT_texture_webp",
    "KHR_lights_punctual",
}
_USED = ("NORMAL", "TEXCOORD_0", "TEXCOORD_1", "COLOR_0", "JOINTS_0", "WEIGHTS_0")
_BROKEN = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)
Attributes = dict[str, Shaped[np.ndarray, "_ _"]]


def read(data: bytes, suffix: str, siblings: Siblings, limits: Limits) -> tuple[list[Part], list[str]]:
    """The parts of a glTF file, and notes about textures that could not be used."""
    text, binary = split_glb(data) if suffix == ".glb" else (data, b"")
    tree = parse_json(text)
    _check_extensions(tree)
    file = _File(tree, buffers := Buffers(tree, binary, siblings, limits), Materials(tree, buffers), limits)
    try:
        return list(file.parts()), file.materials.notes
    except _BROKEN as error:
        raise MeshError(f"the glTF file is damaged: {type(error).__name__}: {error!s:.200}") from error


def _check_extensions(tree: dict[str, Any]) -> None:
    required = [str(name) for name in tree.get("extensionsRequired", ())]
    unknown = [name for name in required if name not in SUPPORTED and not name.startswith("KHR_materials_")]
    if unknown:
        raise MeshError(
            f"the file needs the glTF extension {', '.join(unknown):.200}, which is not read. "
            "Export it without, for example with gltf-transform."
        )


@dataclass(frozen=True)
class _File:
    tree: dict[str, Any]
    buffers: Buffers
    materials: Materials
    limits: Limits

    def parts(self) -> Iterator[Part]:
        worlds = world_matrices(self.tree)
        decoded: dict[int, list[tuple[dict[str, Any], Attributes, Int64[np.ndarray, "f 3"]]]] = {}
        for placed in placed_meshes(self.tree, worlds, self.limits):
            if placed.mesh not in decoded:
                mesh = entry(self.tree, "meshes", placed.mesh)
                decoded[placed.mesh] = [(one, *self._decode(one)) for one in primitives(mesh)]
            joints = None if placed.skin is None else skin_matrices(self.buffers, placed.skin, worlds)
            for primitive, attributes, faces in decoded[placed.mesh]:
                if len(faces):
                    yield self._part(primitive, attributes, faces, placed.matrix, joints)

    def _decode(self, primitive: dict[str, Any]) -> tuple[Attributes, Int64[np.ndarray, "f 3"]]:
        draco = primitive.get("extensions", {}).get(DRACO)
        attributes, indices = self._draco(primitive, draco) if draco else ({}, None)
        for name, index in primitive["attributes"].items():
            if name in ("POSITION", *_USED) and name not in attributes:
                attributes[name] = self.buffers.accessor(index)
        count = len(attributes["POSITION"])
        if any(len(values) != count for name, values in attributes.items() if name in _USED):
            raise MeshError("the file is damaged: it has positions, normals or colours in different numbers.")
        if indices is None and "indices" in primitive:
            indices = self.buffers.accessor(primitive["indices"]).ravel()
        corners = np.arange(count) if indices is None else indices.astype(np.int64)
        if len(corners) and corners.max() >= count:
            raise MeshError("the file is damaged: a face names a vertex that does not exist.")
        return attributes, _triangles(corners, primitive.get("mode", 4))

    def _draco(
        self, primitive: dict[str, Any], described: dict[str, Any]
    ) -> tuple[Attributes, Int64[np.ndarray, " k"]]:
        try:
            decoded = DracoPy.decode(bytes(self.buffers.view(described["bufferView"])))
        except (RuntimeError, DracoPy.FileTypeException) as error:
            raise MeshError("the Draco-compressed part of the file is damaged.") from error
        names = {number: str(name) for name, number in described["attributes"].items()}
        attributes: Attributes = {}
        for one in decoded.attributes:
            name = names.get(one["unique_id"], "")
            if name in primitive["attributes"]:
                accessor = entry(self.tree, "accessors", primitive["attributes"][name])
                attributes[name] = normalised(accessor, np.asarray(one["data"]))
        if "POSITION" not in attributes:
            raise MeshError("the Draco-compressed part of the file holds no positions.")
        return attributes, np.asarray(decoded.faces).ravel().astype(np.int64)

    def _part(
        self,
        primitive: dict[str, Any],
        attributes: Attributes,
        faces: Int64[np.ndarray, "f 3"],
        matrix: Float64[np.ndarray, "4 4"],
        joints: Float64[np.ndarray, "j 4 4"] | None,
    ) -> Part:
        colors = _rgba(attributes.get("COLOR_0"))
        index = primitive.get("material")
        uv_set = 0 if index is None else self.materials.uv_set(index)
        positions, normals = attributes["POSITION"].astype(np.float64), attributes.get("NORMAL")
        if joints is not None and "JOINTS_0" in attributes and "WEIGHTS_0" in attributes:
            places = skinned(joints, attributes["JOINTS_0"], attributes["WEIGHTS_0"])
        else:
            places = matrix[None]
        return Part(
            vertices=_moved(positions, places),
            faces=faces,
            material=_plain(colors is not None) if index is None else self.materials.read(index),
            normals=None if normals is None else _turned(normals.astype(np.float32), places),
            uv=attributes.get(f"TEXCOORD_{uv_set}"),
            colors=colors,
        )


def _plain(colored: bool) -> Material:
    return Material(base=(1.0, 1.0, 1.0, 1.0)) if colored else Material()


def _triangles(corners: Int64[np.ndarray, " k"], mode: int) -> Int64[np.ndarray, "f 3"]:
    if mode == 4:
        return corners[: len(corners) // 3 * 3].reshape(-1, 3)
    if mode == 6:
        return np.stack([np.full(max(len(corners) - 2, 0), corners[:1]), corners[1:-1], corners[2:]], axis=1)
    strip = np.stack([corners[:-2], corners[1:-1], corners[2:]], axis=1)
    strip[1::2] = strip[1::2, [1, 0, 2]]
    return strip


def _moved(
    points: Float64[np.ndarray, "n 3"], places: Float64[np.ndarray, "p 4 4"]
) -> Float64[np.ndarray, "n 3"]:
    """Points through one matrix for all, or one for each."""
    if len(places) == 1:
        return moved(points, places[0])
    turned: Float64[np.ndarray, "n 3"] = each_rotated(points, places[:, :3, :3]) + places[:, :3, 3]
    return turned


def _turned(
    normals: Float32[np.ndarray, "n 3"], places: Float64[np.ndarray, "p 4 4"]
) -> Float32[np.ndarray, "n 3"]:
    """Normals through the inverse transpose; their length is left to the caller."""
    upright = np.linalg.pinv(places[:, :3, :3]).transpose(0, 2, 1)
    turned = rotated(normals, upright[0]) if len(places) == 1 else each_rotated(normals, upright)
    return turned.astype(np.float32)


def _rgba(colors: Shaped[np.ndarray, "n c"] | None) -> Float32[np.ndarray, "n 4"] | None:
    """Vertex colours, which glTF stores in linear light; a missing alpha is 1."""
    if colors is None:
        return None
    if colors.dtype.kind in "iu":
        colors = colors / np.float32(np.iinfo(colors.dtype).max)
    rgba = np.ones((len(colors), 4), np.float32)
    rgba[:, : colors.shape[1]] = colors
    return rgba
