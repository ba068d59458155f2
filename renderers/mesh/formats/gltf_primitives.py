"""One primitive of a glTF mesh: its attributes unpacked and checked, its corners as triangles or points."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

from multifold.errors import needs_extra
from renderers.contracts import Colors, MeshError, TextureCoordinates, Triangles
from renderers.mesh.formats.gltf_buffers import GltfBuffers, normalise_integers, tree_entry
from renderers.mesh.formats.gltf_materials import GltfMaterials
from renderers.mesh.formats.mesh_file import check_indices

with needs_extra("render"):
    import DracoPy

DRACO = "KHR_draco_mesh_compression"
POINTS_MODE = 0
_USED = ("POSITION", "NORMAL", "COLOR_0", "JOINTS_0", "WEIGHTS_0")
Attributes = dict[str, Shaped[np.ndarray, "_ _"]]


@dataclass(frozen=True, eq=False)
class GltfPrimitive:
    """What a primitive holds, before it is placed in the world."""

    attributes: Attributes
    faces: Triangles
    points: bool
    material: int | None
    uv_sets: tuple[int, int | None]  # the numbers of the TEXCOORDs that its material is looked up by

    def uv(self, which: int) -> TextureCoordinates | None:
        """The first or the second set of texture coordinates that its material uses."""
        values = self.attributes.get(f"TEXCOORD_{self.uv_sets[which]}")
        return None if values is None else values.astype(np.float32)

    @property
    def colors(self) -> Colors | None:
        """Vertex colours, which glTF stores in linear light; a missing alpha is 1."""
        colors = self.attributes.get("COLOR_0")
        if colors is None:
            return None
        if colors.dtype.kind in "iu":
            colors = colors / np.float32(np.iinfo(colors.dtype).max)
        rgba = np.ones((len(colors), 4), np.float32)
        rgba[:, : colors.shape[1]] = colors
        return rgba


def decode_primitive(
    buffers: GltfBuffers, materials: GltfMaterials, primitive: dict[str, Any], weights: Sequence[float] = ()
) -> GltfPrimitive:
    """The primitive with its numbers; `weights` are those of its morph targets."""
    material = primitive.get("material")
    uv_sets = (0, None) if material is None else materials.uv_sets(material)
    used = (*_USED, *(f"TEXCOORD_{one}" for one in uv_sets))
    draco = primitive.get("extensions", {}).get(DRACO)
    attributes, indices = _draco(buffers, primitive, draco) if draco else ({}, None)
    for name in used:
        if name in primitive["attributes"] and name not in attributes:
            attributes[name] = buffers.accessor(primitive["attributes"][name])
    count = len(attributes["POSITION"])
    if any(len(attributes[name]) != count for name in used if name in attributes):
        raise MeshError("the file is damaged: it has positions, normals or colours in different numbers.")
    _morph(buffers, primitive, attributes, weights)
    if indices is None and "indices" in primitive:
        indices = buffers.accessor(primitive["indices"]).ravel()
    corners = np.arange(count) if indices is None else indices.astype(np.int64)
    check_indices(corners, count)
    mode = primitive.get("mode", 4)
    if mode == POINTS_MODE:
        attributes = {name: values[corners] for name, values in attributes.items()}
    return GltfPrimitive(attributes, _triangles(corners, mode), mode == POINTS_MODE, material, uv_sets)


def _draco(
    buffers: GltfBuffers, primitive: dict[str, Any], described: dict[str, Any]
) -> tuple[Attributes, Int64[np.ndarray, " k"]]:
    try:
        decoded = DracoPy.decode(bytes(buffers.view(described["bufferView"])))
    except (RuntimeError, ValueError, DracoPy.FileTypeException) as error:
        raise MeshError("the Draco-compressed part of the file is damaged.") from error
    names = {number: str(name) for name, number in described["attributes"].items()}
    attributes: Attributes = {}
    for one in decoded.attributes:
        name = names.get(one["unique_id"], "")
        if name in primitive["attributes"]:
            accessor = tree_entry(buffers.tree, "accessors", primitive["attributes"][name])
            attributes[name] = normalise_integers(accessor, np.asarray(one["data"]))
    if "POSITION" not in attributes:
        raise MeshError("the Draco-compressed part of the file holds no positions.")
    corners = np.asarray(decoded.faces).ravel().astype(np.int64)
    buffers.limits.check("faces", len(corners) // 3, buffers.limits.faces)
    return attributes, corners


def _morph(
    buffers: GltfBuffers, primitive: dict[str, Any], attributes: Attributes, weights: Sequence[float]
) -> None:
    """Move positions and normals as far towards the morph targets as the weights say, in place."""
    for weight, target in zip(weights, primitive.get("targets", ()), strict=False):
        for name in ("POSITION", "NORMAL"):
            if weight and name in target and name in attributes:
                change = buffers.accessor(target[name]).astype(np.float32)
                attributes[name] = attributes[name].astype(np.float32) + np.float32(weight) * change


def _triangles(corners: Int64[np.ndarray, " k"], mode: int) -> Triangles:
    if mode == POINTS_MODE:
        return np.zeros((0, 3), np.int64)
    if mode == 4:
        return corners[: len(corners) // 3 * 3].reshape(-1, 3)
    if mode == 6:
        return np.stack([np.full(max(len(corners) - 2, 0), corners[:1]), corners[1:-1], corners[2:]], axis=1)
    strip = np.stack([corners[:-2], corners[1:-1], corners[2:]], axis=1)
    strip[1::2] = strip[1::2, [1, 0, 2]]
    return strip
