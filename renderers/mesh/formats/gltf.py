"""glTF and GLB files: the node tree, instances and skins, as parts in the world.

Read here rather than by trimesh: bounds, loops and instances are checked before memory is spent, and wrap
modes, texture transforms, quantised and sparse data are kept, which trimesh drops or misreads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from renderers.contracts import Matrix, MeshError, MeshLimits, MeshMaterial, MeshPart
from renderers.mesh.formats.gltf_buffers import MESHOPT, GltfBuffers, tree_entry, whole_number
from renderers.mesh.formats.gltf_materials import GltfMaterials
from renderers.mesh.formats.gltf_primitives import DRACO, GltfPrimitive, decode_primitive
from renderers.mesh.formats.mesh_file import MeshContents, SiblingFiles, parse_json, split_glb
from renderers.mesh.formats.point_cloud import FACES_PER_POINT, point_cloud
from renderers.mesh.formats.table import GLB_MAGIC
from renderers.mesh.formats.transform import placement_matrix, rotate_vectors, transform_points

INSTANCING = "EXT_mesh_gpu_instancing"
_RESTING = {"TRANSLATION": (0.0, 0.0, 0.0), "ROTATION": (0.0, 0.0, 0.0, 1.0), "SCALE": (1.0, 1.0, 1.0)}
SUPPORTED_EXTENSIONS = {
    *(DRACO, *MESHOPT, INSTANCING),
    *("EXT_texture_webp", "KHR_lights_punctual", "KHR_mesh_quantization"),
    *("KHR_texture_basisu", "KHR_texture_transform"),
}
Matrices = Float64[np.ndarray, "p 4 4"]
_MODES = (0, 4, 5, 6)  # points, triangles, strips and fans; lines are not drawn


def instance_count(tree: dict[str, Any], node: dict[str, Any]) -> int:
    """How many instances a node declares; 1 without the extension."""
    described = (tree_entry(tree, "accessors", index) for index in _accessors(node).values())
    return max((whole_number(one.get("count"), "count") for one in described), default=1)


def instance_matrices(buffers: GltfBuffers, node: dict[str, Any]) -> list[Matrix]:
    """Where the instances stand beneath their node; the node alone without the extension."""
    count = instance_count(buffers.tree, node)
    columns = {}
    for name, index in _accessors(node).items():
        columns[name] = buffers.accessor(index).astype(np.float64)
        if columns[name].shape != (count, len(_RESTING[name])):
            raise MeshError("the file is damaged: its instances have places and turns in different numbers.")
    rows = {name: columns.get(name, np.tile(rest, (count, 1))) for name, rest in _RESTING.items()}
    return [placement_matrix(*row) for row in zip(*rows.values(), strict=True)]


def _accessors(node: dict[str, Any]) -> dict[str, Any]:
    attributes = node.get("extensions", {}).get(INSTANCING, {}).get("attributes", {})
    return {name: index for name, index in attributes.items() if name in _RESTING}


@dataclass(frozen=True)
class MeshInstance:
    """One mesh at one place."""

    mesh: int
    matrix: Matrix
    skin: int | None
    weights: tuple[float, ...]  # of its morph targets

    @property
    def key(self) -> tuple[int, tuple[float, ...]]:
        return self.mesh, self.weights


def world_matrices(tree: dict[str, Any]) -> dict[int, Matrix]:
    """Node -> its place in the world, for every node of the scene."""
    worlds: dict[int, Matrix] = {}
    waiting: list[tuple[Any, Matrix]] = [(root, np.eye(4)) for root in _roots(tree)]
    while waiting:
        index, above = waiting.pop()
        node = tree_entry(tree, "nodes", index)
        if index in worlds:
            raise MeshError("the file is damaged: a node of its scene hangs in two places or in a loop.")
        worlds[index] = above @ _local_matrix(node)
        waiting += [(child, worlds[index]) for child in node.get("children", ())]
    return worlds


def mesh_instances(
    buffers: GltfBuffers, worlds: dict[int, Matrix], limits: MeshLimits
) -> Iterator[MeshInstance]:
    """Every mesh of the scene where it stands; the whole scene is counted before the first one is given."""
    tree = buffers.tree
    holders = [index for index in sorted(worlds) if "mesh" in tree["nodes"][index]]
    _count(tree, [tree["nodes"][index] for index in holders], limits)
    for index in holders:
        node = tree["nodes"][index]
        weights = node.get("weights", tree["meshes"][node["mesh"]].get("weights", ()))
        for matrix in instance_matrices(buffers, node):
            placed = worlds[index] @ matrix
            yield MeshInstance(node["mesh"], placed, node.get("skin"), tuple(map(float, weights)))


def drawable_primitives(mesh: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The primitives of a mesh that are made of triangles or points."""
    for primitive in mesh.get("primitives", ()):
        if primitive.get("mode", 4) in _MODES and "POSITION" in primitive.get("attributes", {}):
            yield primitive


def _count(tree: dict[str, Any], nodes: list[dict[str, Any]], limits: MeshLimits) -> None:
    """Refuse a scene with too much in it, by what it declares."""
    instances = faces = vertices = 0
    sizes: dict[int, tuple[int, int]] = {}
    for node in nodes:
        mesh = node["mesh"]
        times = instance_count(tree, node)
        if mesh not in sizes:
            sizes[mesh] = _size(tree, tree_entry(tree, "meshes", mesh), limits)
        instances += times
        faces, vertices = faces + times * sizes[mesh][0], vertices + times * sizes[mesh][1]
    limits.check("instances", instances, limits.instances)
    limits.check("faces", faces, limits.faces)
    limits.check("vertices", vertices, limits.vertices)


def _size(tree: dict[str, Any], mesh: dict[str, Any], limits: MeshLimits) -> tuple[int, int]:
    """Faces and vertices of one mesh, as its accessors declare them."""
    faces = vertices = 0
    for primitive in drawable_primitives(mesh):
        corners = tree_entry(tree, "accessors", primitive.get("indices", primitive["attributes"]["POSITION"]))
        points = tree_entry(tree, "accessors", primitive["attributes"]["POSITION"])
        faces += _faces(primitive.get("mode", 4), whole_number(corners.get("count"), "count"), limits)
        vertices += whole_number(points.get("count"), "count")
    return faces, vertices


def _faces(mode: int, corners: int, limits: MeshLimits) -> int:
    if mode == 0:
        return FACES_PER_POINT * min(corners, limits.points)
    return corners // 3 if mode == 4 else max(corners - 2, 0)


def _roots(tree: dict[str, Any]) -> list[Any]:
    if not tree.get("scenes"):
        children = {child for node in tree.get("nodes", ()) for child in node.get("children", ())}
        return [index for index in range(len(tree.get("nodes", ()))) if index not in children]
    roots: list[Any] = tree_entry(tree, "scenes", tree.get("scene", 0)).get("nodes", [])
    return roots


def _local_matrix(node: dict[str, Any]) -> Matrix:
    if "matrix" in node:
        return np.array(node["matrix"], np.float64).reshape(4, 4).T
    parts = ((node.get(name.lower(), rest), len(rest)) for name, rest in _RESTING.items())
    return placement_matrix(*(np.array(value, np.float64).reshape(size) for value, size in parts))


def skin_matrices(buffers: GltfBuffers, index: int, worlds: dict[int, Matrix]) -> Matrices:
    """What each joint does to a vertex: into the joint's rest frame, then to where the joint stands."""
    skin = tree_entry(buffers.tree, "skins", index)
    joints = skin["joints"]
    if not joints or any(joint not in worlds for joint in joints):
        raise MeshError("the file is damaged: a skin names a joint that is not in the scene.")
    stand = np.stack([worlds[joint] for joint in joints])
    if "inverseBindMatrices" not in skin:
        return stand
    rest = buffers.accessor(skin["inverseBindMatrices"]).astype(np.float64)
    if rest.shape != (len(joints), 16):
        raise MeshError("the file is damaged: a skin has fewer rest poses than joints.")
    return stand @ rest.reshape(-1, 4, 4).transpose(0, 2, 1)


def blend_joints(
    matrices: Matrices, joints: Shaped[np.ndarray, "n 4"], weights: Shaped[np.ndarray, "n 4"]
) -> Float64[np.ndarray, "n 4 4"]:
    """The mean of its joints' matrices for each vertex, by its weights."""
    if joints.size and joints.max() >= len(matrices):
        raise MeshError("the file is damaged: a vertex hangs on a joint that does not exist.")
    shares = weights.astype(np.float64)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-12)
    return np.asarray(np.einsum("nk,nkij->nij", shares, matrices[joints.astype(np.int64)]))


def read(data: bytes, suffix: str, siblings: SiblingFiles, limits: MeshLimits) -> MeshContents:
    """The parts of a glTF file, and notes about what could not be used."""
    binary_kind = suffix == ".glb" or data.startswith(GLB_MAGIC)
    text, binary = split_glb(data) if binary_kind else (data, b"")
    tree = parse_json(text)
    required = {str(name) for name in tree.get("extensionsRequired", ())} - SUPPORTED_EXTENSIONS
    if unknown := sorted(name for name in required if not name.startswith("KHR_materials_")):
        raise MeshError(
            f"the file needs the glTF extension {', '.join(unknown):.200}, which is not read. "
            "Export it without, for example with gltf-transform."
        )
    buffers = GltfBuffers(tree, binary, siblings, limits)
    file = _File(tree, buffers, GltfMaterials(tree, buffers), limits)
    return MeshContents(
        list(file.parts()),
        file.notes + file.materials.decoder.notes,
        metres=1.0,
        animated=bool(tree.get("animations")),
    )


@dataclass(frozen=True)
class _File:
    tree: dict[str, Any]
    buffers: GltfBuffers
    materials: GltfMaterials
    limits: MeshLimits
    notes: list[str] = field(default_factory=list)

    def parts(self) -> Iterator[MeshPart]:
        worlds = world_matrices(self.tree)
        decoded: dict[tuple[int, tuple[float, ...]], list[GltfPrimitive]] = {}
        for placed in mesh_instances(self.buffers, worlds, self.limits):
            if placed.key not in decoded:
                decoded[placed.key] = [
                    decode_primitive(self.buffers, self.materials, one, placed.weights)
                    for one in drawable_primitives(self.tree["meshes"][placed.mesh])
                ]
            joints = None if placed.skin is None else skin_matrices(self.buffers, placed.skin, worlds)
            for primitive in decoded[placed.key]:
                if len(primitive.faces) or primitive.points:
                    yield self._part(primitive, placed, joints)

    def _part(self, primitive: GltfPrimitive, placed: MeshInstance, joints: Matrices | None) -> MeshPart:
        attributes = primitive.attributes
        positions = attributes["POSITION"].astype(np.float64)
        normals = attributes.get("NORMAL")
        places = placed.matrix[None]
        if joints is not None and "JOINTS_0" in attributes and "WEIGHTS_0" in attributes:
            places = blend_joints(joints, attributes["JOINTS_0"], attributes["WEIGHTS_0"])
        vertices = transform_points(positions, places)
        turned = None
        if normals is not None:  # through the inverse transpose; their length is mended later
            upright = np.linalg.pinv(places[:, :3, :3]).transpose(0, 2, 1)
            turned = rotate_vectors(normals.astype(np.float32), upright).astype(np.float32)
        material = MeshMaterial() if primitive.colors is None else MeshMaterial(base=(1.0, 1.0, 1.0, 1.0))
        if primitive.material is not None:
            material = self.materials.read(primitive.material)
        if primitive.points:
            part, notes = point_cloud(vertices, turned, primitive.colors, material, self.limits)
            self.notes.extend(notes)
            return part
        uv, uv1 = primitive.uv(0), primitive.uv(1)
        return MeshPart(vertices, primitive.faces, material, turned, uv, primitive.colors, uv1)
