"""OBJ, PLY, STL and OFF files -> parts, parsed by trimesh.

Their declared sizes are checked first, siblings go through our own reader, and what the parsers make of the
file is checked again.
"""

import io
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64

from multifold.errors import needs_extra
from renderers.errors import MeshError
from renderers.files.contents import Contents
from renderers.files.declared import check_declared
from renderers.files.obj import counted_forwards
from renderers.files.plain_looks import Looks, linear
from renderers.files.points import point_cloud
from renderers.files.siblings import Siblings
from renderers.limits import Limits
from renderers.model import Material, Part
from renderers.transform import moved

with needs_extra("render"):
    import trimesh
    from trimesh.resolvers import Resolver

_WHITE = (1.0, 1.0, 1.0, 1.0)


def read(data: bytes, suffix: str, siblings: Siblings, limits: Limits) -> Contents:
    """The parts of the file, and notes about what could not be used."""
    check_declared(data, suffix, limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of parsers, about files that they read all the same
        scene = _scene(data, suffix, siblings)
    if siblings.refused:
        raise MeshError(
            f"the file asks for {siblings.refused[0][:80]!r}, which lies outside its folder. "
            "Put it beside the mesh."
        )
    file = _File(scene, suffix, limits)
    parts = list(file.parts())
    missing = [f"drawn without {name[:60]!r}, which does not lie beside it" for name in siblings.missing]
    return Contents(parts, missing + file.looks.notes + file.notes)


def _scene(data: bytes, suffix: str, siblings: Siblings) -> Any:  # noqa: ANN401 (trimesh is not typed)
    return trimesh.load_scene(
        io.BytesIO(counted_forwards(data) if suffix == ".obj" else data),
        file_type=suffix[1:],
        resolver=_SiblingResolver(siblings),
        process=False,
        maintain_order=True,
    )


class _SiblingResolver(Resolver):
    """Hands trimesh our own reader of siblings."""

    def __init__(self, siblings: Siblings) -> None:
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
    def __init__(self, scene: Any, suffix: str, limits: Limits) -> None:  # noqa: ANN401 (trimesh is not typed)
        self.scene, self.suffix, self.limits = scene, suffix, limits
        self.looks, self.notes = Looks(limits), list[str]()

    def parts(self) -> Iterator[Part]:
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
            if faces.min() < 0 or faces.max() >= len(geometry.vertices):
                raise MeshError("the file is damaged: a face names a vertex that does not exist.")
            yield self._part(geometry, faces, matrix)

    def _part(
        self,
        geometry: Any,  # noqa: ANN401
        faces: Int64[np.ndarray, "f 3"],
        matrix: Float64[np.ndarray, "4 4"],
    ) -> Part:
        visual = geometry.visual
        vertices = moved(np.asarray(geometry.vertices, np.float64), matrix)
        if visual.kind == "face":
            colors = linear(np.asarray(visual.face_colors)).repeat(3, axis=0)
            unshared = np.arange(3 * len(faces)).reshape(-1, 3)
            return Part(vertices[faces].reshape(-1, 3), unshared, Material(base=_WHITE), colors=colors)
        normals = self._normals(geometry)
        if visual.kind == "vertex":
            return Part(vertices, faces, Material(base=_WHITE), normals, colors=linear(visual.vertex_colors))
        material = self.looks.material(getattr(visual, "material", None))
        return Part(vertices, faces, material, normals, _uv(visual, len(vertices)))

    def _points(self, geometry: Any, matrix: Float64[np.ndarray, "4 4"]) -> Part:  # noqa: ANN401
        points = moved(np.asarray(geometry.vertices, np.float64), matrix)
        colored = np.shape(geometry.colors) == (len(points), 4)
        part, notes = point_cloud(
            points,
            _point_normals(geometry),
            linear(geometry.colors) if colored else None,
            Material(base=_WHITE) if colored else Material(),
            self.limits,
        )
        self.notes.extend(notes)
        return part

    def _normals(self, geometry: Any) -> Float32[np.ndarray, "n 3"] | None:  # noqa: ANN401
        """Normals that the file brought; STL's say nothing that its triangles don't."""
        if self.suffix == ".stl" or "vertex_normals" not in geometry._cache:
            return None
        return np.asarray(geometry.vertex_normals, np.float32)


def _point_normals(geometry: Any) -> Float32[np.ndarray, "n 3"] | None:  # noqa: ANN401
    """The normals of a PLY file's points, which trimesh keeps raw."""
    columns = geometry.metadata.get("_ply_raw", {}).get("vertex", {}).get("data", {})
    try:
        normals = [np.asarray(columns[name], np.float32).reshape(len(geometry.vertices)) for name in _NORMAL]
    except (KeyError, IndexError, ValueError):
        return None
    return np.stack(normals, axis=1)


_NORMAL = ("nx", "ny", "nz")


def _uv(visual: Any, count: int) -> Float32[np.ndarray, "n 2"] | None:  # noqa: ANN401
    """Texture coordinates with their origin moved from the bottom to the top."""
    uv = getattr(visual, "uv", None)
    if uv is None or np.shape(uv)[0] != count:
        return None
    flipped = np.array(np.asarray(uv)[:, :2], np.float32)
    flipped[:, 1] = 1 - flipped[:, 1]
    return flipped
