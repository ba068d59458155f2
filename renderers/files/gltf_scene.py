"""The node tree of a glTF file: where each mesh stands in the world. Loops and floods are refused first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from renderers.errors import MeshError
from renderers.files.accessors import entry, whole
from renderers.limits import Limits

Matrix = Float64[np.ndarray, "4 4"]
_MODES = {4: "triangles", 5: "strip", 6: "fan"}


@dataclass(frozen=True)
class Placed:
    """One mesh at one place."""

    mesh: int
    matrix: Matrix
    skin: int | None


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


def placed_meshes(tree: dict[str, Any], worlds: dict[int, Matrix], limits: Limits) -> Iterator[Placed]:
    """Every mesh of the scene where it stands; the whole scene is counted before the first one is given."""
    holders = [index for index in sorted(worlds) if "mesh" in tree["nodes"][index]]
    limits.check("instances", len(holders), limits.instances)
    sizes: dict[int, tuple[int, int]] = {}
    faces = vertices = 0
    for index in holders:
        mesh = tree["nodes"][index]["mesh"]
        if mesh not in sizes:
            sizes[mesh] = _size(tree, entry(tree, "meshes", mesh))
        faces, vertices = faces + sizes[mesh][0], vertices + sizes[mesh][1]
    limits.check("faces", faces, limits.faces)
    limits.check("vertices", vertices, limits.vertices)
    for index in holders:
        node = tree["nodes"][index]
        yield Placed(node["mesh"], worlds[index], node.get("skin"))


def primitives(mesh: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The primitives of a mesh that are made of triangles."""
    for primitive in mesh.get("primitives", ()):
        if primitive.get("mode", 4) in _MODES and "POSITION" in primitive.get("attributes", {}):
            yield primitive


def _size(tree: dict[str, Any], mesh: dict[str, Any]) -> tuple[int, int]:
    """Faces and vertices of one mesh, as its accessors declare them."""
    faces = vertices = 0
    for primitive in primitives(mesh):
        corners = entry(tree, "accessors", primitive.get("indices", primitive["attributes"]["POSITION"]))
        count = whole(corners.get("count"), "count")
        faces += count // 3 if primitive.get("mode", 4) == 4 else max(count - 2, 0)
        points = entry(tree, "accessors", primitive["attributes"]["POSITION"])
        vertices += whole(points.get("count"), "count")
    return faces, vertices


def _roots(tree: dict[str, Any]) -> list[Any]:
    if not tree.get("scenes"):
        children = {child for node in tree.get("nodes", ()) for child in node.get("children", ())}
        return [index for index in range(len(tree.get("nodes", ()))) if index not in children]
    roots: list[Any] = entry(tree, "scenes", tree.get("scene", 0)).get("nodes", [])
    return roots


def _local_matrix(node: dict[str, Any]) -> Matrix:
    if "matrix" in node:
        return np.array(node["matrix"], np.float64).reshape(4, 4).T
    matrix = np.eye(4)
    turned = _rotation(np.array(node.get("rotation", (0, 0, 0, 1)), np.float64).reshape(4))
    matrix[:3, :3] = turned * np.array(node.get("scale", (1, 1, 1)), np.float64).reshape(3)
    matrix[:3, 3] = np.array(node.get("translation", (0, 0, 0)), np.float64).reshape(3)
    return matrix


def _rotation(quaternion: Float64[np.ndarray, "4"]) -> Float64[np.ndarray, "3 3"]:
    """The rotation of a quaternion x, y, z, w, which is brought to unit length."""
    length = np.linalg.norm(quaternion)
    x, y, z, w = quaternion / length if length > 0 else (0.0, 0.0, 0.0, 1.0)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
