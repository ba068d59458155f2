"""glTF and GLB files -> parts in the world.

Read here rather than by trimesh: bounds, loops and instances are checked before memory is spent, and wrap
modes, texture transforms, quantised and sparse data are kept, which trimesh drops or misreads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64

from renderers.errors import MeshError
from renderers.files.accessors import Buffers
from renderers.files.container import GLB_MAGIC, parse_json, split_glb
from renderers.files.contents import Contents
from renderers.files.gltf_instances import INSTANCING
from renderers.files.gltf_materials import Materials
from renderers.files.gltf_packed import MESHOPT
from renderers.files.gltf_primitive import DRACO, Primitive, decode
from renderers.files.gltf_scene import Placed, placed_meshes, primitives, world_matrices
from renderers.files.gltf_skin import skin_matrices, skinned
from renderers.files.points import point_cloud
from renderers.files.siblings import Siblings
from renderers.limits import Limits
from renderers.model import Material, Part
from renderers.transform import each_rotated, moved, rotated

SUPPORTED = {
    DRACO,
    *MESHOPT,
    INSTANCING,
    "EXT_texture_webp",
    "KHR_lights_punctual",
    "KHR_mesh_quantization",
    "KHR_texture_basisu",
    "KHR_texture_transform",
}
Matrices = Float64[np.ndarray, "p 4 4"]


def read(data: bytes, suffix: str, siblings: Siblings, limits: Limits) -> Contents:
    """The parts of a glTF file, and notes about what could not be used."""
    binary_kind = suffix == ".glb" or data.startswith(GLB_MAGIC)
    text, binary = split_glb(data) if binary_kind else (data, b"")
    tree = parse_json(text)
    _check_extensions(tree)
    buffers = Buffers(tree, binary, siblings, limits)
    file = _File(tree, buffers, Materials(tree, buffers), limits)
    return Contents(list(file.parts()), file.notes + file.materials.notes)


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
    notes: list[str] = field(default_factory=list)

    def parts(self) -> Iterator[Part]:
        worlds = world_matrices(self.tree)
        decoded: dict[tuple[int, tuple[float, ...]], list[Primitive]] = {}
        for placed in placed_meshes(self.buffers, worlds, self.limits):
            if placed.key not in decoded:
                found = primitives(self.tree["meshes"][placed.mesh])
                decoded[placed.key] = [
                    decode(self.buffers, self.materials, one, placed.weights) for one in found
                ]
            joints = None if placed.skin is None else skin_matrices(self.buffers, placed.skin, worlds)
            for primitive in decoded[placed.key]:
                if len(primitive.faces) or primitive.points:
                    yield self._part(primitive, placed, joints)

    def _part(self, primitive: Primitive, placed: Placed, joints: Matrices | None) -> Part:
        attributes = primitive.attributes
        positions, normals = attributes["POSITION"].astype(np.float64), attributes.get("NORMAL")
        places = placed.matrix[None]
        if joints is not None and "JOINTS_0" in attributes and "WEIGHTS_0" in attributes:
            places = skinned(joints, attributes["JOINTS_0"], attributes["WEIGHTS_0"])
        vertices = _moved(positions, places)
        turned = None if normals is None else _turned(normals.astype(np.float32), places)
        material = (
            _plain(primitive) if primitive.material is None else self.materials.read(primitive.material)
        )
        if primitive.points:
            part, notes = point_cloud(vertices, turned, primitive.colors, material, self.limits)
            self.notes.extend(notes)
            return part
        return Part(
            vertices, primitive.faces, material, turned, primitive.uv(0), primitive.colors, primitive.uv(1)
        )


def _plain(primitive: Primitive) -> Material:
    return Material() if primitive.colors is None else Material(base=(1.0, 1.0, 1.0, 1.0))


def _moved(points: Float64[np.ndarray, "n 3"], places: Matrices) -> Float64[np.ndarray, "n 3"]:
    """Points through one matrix for all, or one for each."""
    if len(places) == 1:
        return moved(points, places[0])
    turned: Float64[np.ndarray, "n 3"] = each_rotated(points, places[:, :3, :3]) + places[:, :3, 3]
    return turned


def _turned(normals: Float32[np.ndarray, "n 3"], places: Matrices) -> Float32[np.ndarray, "n 3"]:
    """Normals through the inverse transpose; their length is left to the caller."""
    upright = np.linalg.pinv(places[:, :3, :3]).transpose(0, 2, 1)
    turned = rotated(normals, upright[0]) if len(places) == 1 else each_rotated(normals, upright)
    return turned.astype(np.float32)
