"""The node tree of a glTF file: where each mesh stands in the world. Loops and floods are refused first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from renderers.errors import MeshError
from renderers.files.accessors import Buffers, entry, whole
from renderers.files.gltf_instances import instance_count, instance_matrices
from renderers.files.points import FACES_EACH
from renderers.limits import Limits
from renderers.transform import placement

Matrix = Float64[np.ndarray, "4 4"]
_MODES = {0: "points", 4: "triangles", 5: "strip", 6: "fan"}  # lines are not drawn


@dataclass(frozen=True)
class Placed:
    """One mesh at one place."""

    mesh: int
    matrix: Matrix
    skin: int | None
    weights: tuple[float, ...]  # of its morph targets

    @property
    def key(self) -> tuple[int, tuple[float, ...]]:
        """What decides its shape, before it is placed."""
        return self.mesh, self.weights


def world_matrices(tree: dict[str, Any]) -> dict[int, Matrix]:
    """Node -> its place in the world, for every node of the scene."""
    worlds: dict[int, Matrix] = {}
    waiting: list[tuple[Any, Matrix]] = [(root, np.eye(4)) for root in _roots(tree)]
    while waiting:
        index, above = waiting.pop()
        node = entry(tree, "nodes", index)
        if index in worlds:
            raise MeshError("the file is damaged: a node of its scene hangs in two places or in a loop.")
        worlds[index] = above @ _local_matrix(node)
        waiting += [(child, worlds[index]) for child in node.get("children", ())]
    return worlds


def placed_meshes(buffers: Buffers, worlds: dict[int, Matrix], limits: Limits) -> Iterator[Placed]:
    """Every mesh of the scene where it stands; the whole scene is counted before the first one is given."""
    tree = buffers.tree
    holders = [index for index in sorted(worlds) if "mesh" in tree["nodes"][index]]
    _count(tree, [tree["nodes"][index] for index in holders], limits)
    for index in holders:
        node = tree["nodes"][index]
        weights = node.get("weights", tree["meshes"][node["mesh"]].get("weights", ()))
        for matrix in instance_matrices(buffers, node):
            yield Placed(node["mesh"], worlds[index] @ matrix, node.get("skin"), tuple(map(float, weights)))


def primitives(mesh: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The primitives of a mesh that are made of triangles or points."""
    for primitive in mesh.get("primitives", ()):
        if primitive.get("mode", 4) in _MODES and "POSITION" in primitive.get("attributes", {}):
            yield primitive


def _count(tree: dict[str, Any], nodes: list[dict[str, Any]], limits: Limits) -> None:
    """Refuse a scene with too much in it, by what it declares."""
    instances = faces = vertices = 0
    sizes: dict[int, tuple[int, int]] = {}
    for node in nodes:
        mesh, times = node["mesh"], instance_count(tree, node)
        if mesh not in sizes:
            sizes[mesh] = _size(tree, entry(tree, "meshes", mesh), limits)
        instances += times
        faces, vertices = faces + times * sizes[mesh][0], vertices + times * sizes[mesh][1]
    limits.check("instances", instances, limits.instances)
    limits.check("faces", faces, limits.faces)
    limits.check("vertices", vertices, limits.vertices)


def _size(tree: dict[str, Any], mesh: dict[str, Any], limits: Limits) -> tuple[int, int]:
    """Faces and vertices of one mesh, as its accessors declare them."""
    faces = vertices = 0
    for primitive in primitives(mesh):
        corners = entry(tree, "accessors", primitive.get("indices", primitive["attributes"]["POSITION"]))
        points = entry(tree, "accessors", primitive["attributes"]["POSITION"])
        faces += _faces(primitive.get("mode", 4), whole(corners.get("count"), "count"), limits)
        vertices += whole(points.get("count"), "count")
    return faces, vertices


def _faces(mode: int, corners: int, limits: Limits) -> int:
    if mode == 0:
        return FACES_EACH * min(corners, limits.points)
    return corners // 3 if mode == 4 else max(corners - 2, 0)


def _roots(tree: dict[str, Any]) -> list[Any]:
    if not tree.get("scenes"):
        children = {child for node in tree.get("nodes", ()) for child in node.get("children", ())}
        return [index for index in range(len(tree.get("nodes", ()))) if index not in children]
    roots: list[Any] = entry(tree, "scenes", tree.get("scene", 0)).get("nodes", [])
    return roots


def _local_matrix(node: dict[str, Any]) -> Matrix:
    if "matrix" in node:
        return np.array(node["matrix"], np.float64).reshape(4, 4).T
    parts = [("translation", (0, 0, 0)), ("rotation", (0, 0, 0, 1)), ("scale", (1, 1, 1))]
    return placement(*(np.array(node.get(name, rest), np.float64).reshape(len(rest)) for name, rest in parts))
