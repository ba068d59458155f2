"""Copies of a mesh that are the same thing: in grey, turned and rescaled, meshed anew."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Int32

from multifold.manifest import ManifestEntry
from renderers.contracts import MeshMaterial, MeshModel
from renderers.mesh.glb import encode_glb
from renderers.mesh.load import load_model

Change: TypeAlias = Callable[[MeshModel, ManifestEntry], MeshModel]

LARGEST = 10.0  # how much larger or smaller a copy may be
MIDDLE = 0.25  # edges are cut at least so far from either end
GRID = 1 / 64  # corners of a copy that is meshed anew lie on this grid; the shape has radius one


def grey(model: MeshModel, _: ManifestEntry) -> MeshModel:
    """The same form in one grey."""
    bare = np.zeros_like(model.material_of)
    return replace(model, materials=(MeshMaterial(),), material_of=bare, colors=np.ones_like(model.colors))


def turn(model: MeshModel, entry: ManifestEntry) -> MeshModel:
    """The same piece turned about the vertical by any angle, and larger or smaller.

    Its faces are in another order: else a sample of its surface would have the same points, only turned.
    """
    rng = np.random.default_rng([*entry.id.encode()])
    angle, size = rng.uniform(0, 2 * np.pi), LARGEST ** rng.uniform(-1, 1)
    cos, sin = np.cos(angle), np.sin(angle)
    matrix = np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]], np.float32)
    order = rng.permutation(len(model.faces))
    return replace(
        model,
        vertices=_matrix_product(model.vertices, matrix) * np.float32(size),
        faces=model.faces[order],
        normals=_matrix_product(model.normals[order], matrix),
        material_of=model.material_of[order],
    )


def remesh(model: MeshModel, entry: ManifestEntry) -> MeshModel:
    """Each face cut into four at uneven places of its edges, corners moved to a grid, each face flat."""
    rng = np.random.default_rng([*entry.id.encode()])
    pairs = np.sort(model.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    edges, of = np.unique(pairs, axis=0, return_inverse=True)
    cuts = rng.uniform(MIDDLE, 1 - MIDDLE, (len(edges), 1)).astype(np.float32)
    a, b, c = (model.faces[:, place] for place in range(3))
    ab, bc, ca = (len(model.vertices) + of.reshape(-1, 3)[:, place] for place in range(3))
    corners = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    faces = np.concatenate([np.stack(three, axis=1) for three in corners]).astype(np.int32)

    def cut(values: Float32[np.ndarray, "n c"]) -> Float32[np.ndarray, "m c"]:
        first, second = (values[edges[:, end]] for end in (0, 1))
        return np.concatenate([values, first + cuts * (second - first)])

    vertices = (np.round(cut(model.vertices) / GRID) * GRID).astype(np.float32)
    across = _across(vertices, faces)
    kept = np.linalg.norm(across, axis=1) > 0
    across = across[kept] / np.linalg.norm(across[kept], axis=1, keepdims=True)
    return replace(
        model,
        vertices=vertices,
        faces=faces[kept],
        normals=np.repeat(across[:, None], 3, axis=1).astype(np.float32),
        uv=cut(model.uv),
        uv1=None if model.uv1 is None else cut(model.uv1),
        colors=cut(model.colors),
        material_of=np.tile(model.material_of, 4)[kept],
    )


def changed(entry: ManifestEntry, folder: Path, change: Change) -> ManifestEntry:
    """The piece with a mesh that is changed and written anew, once."""
    path = folder / f"{entry.id.replace('/', '_')}.glb"
    if not path.exists():
        assert entry.mesh is not None
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_glb(change(load_model(entry.mesh), entry)))
    return replace(entry, mesh=path)


def _across(
    vertices: Float32[np.ndarray, "n 3"], faces: Int32[np.ndarray, "f 3"]
) -> Float32[np.ndarray, "f 3"]:
    first, second, third = (vertices[faces[:, place]] for place in range(3))
    return np.cross(second - first, third - first)


def _matrix_product(
    vectors: Float32[np.ndarray, "*n 3"], matrix: Float32[np.ndarray, "3 3"]
) -> Float32[np.ndarray, "*n 3"]:
    return np.asarray(vectors @ matrix.T, np.float32)
