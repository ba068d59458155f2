"""USD files -> parts, by Pixar's own library (the extra `usd`): .usd, .usda, .usdc, and packages, .usdz.

Drawn are meshes at the first time that they have values for, of the purposes `default` and `render`, in the
variants that are chosen. The faces of subdivision surfaces are drawn as they stand.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from multifold.errors import needs_extra
from renderers.contracts import Axis, Colors, MeshError, MeshLimits, MeshMaterial, MeshPart
from renderers.mesh.formats.mesh_file import MeshContents, SiblingFiles, check_indices
from renderers.mesh.formats.transform import rotate_vectors, transform_points
from renderers.mesh.formats.usd_layers import UsdFile, UsdObject, damaged_usd
from renderers.mesh.formats.usd_materials import USUAL_UV, UsdMaterials

_WHITE = MeshMaterial(base=(1.0, 1.0, 1.0, 1.0))
_BARE = MeshMaterial()
_DRAWN_PURPOSES = ("default", "render")
_MOST_PRIMS = 1_000_000
_UV_FLIP, _UV_SHIFT = (1, -1), (0, 1)  # USD counts upwards, we downwards
Corners: TypeAlias = Int64[np.ndarray, "f 3"]


def read(data: bytes, suffix: str, siblings: SiblingFiles, limits: MeshLimits) -> MeshContents:  # noqa: ARG001
    """The parts of a USD file, materials included."""
    with needs_extra("usd"):
        from pxr import Tf
    assert siblings.mesh is not None
    file = UsdFile(siblings.mesh, data, siblings, limits)
    try:
        return _contents(file)
    except Tf.ErrorException as error:
        raise damaged_usd() from error


def _contents(file: UsdFile) -> MeshContents:
    from pxr import Usd, UsdGeom

    file.check_layers()
    stage = file.open_stage()
    animated = stage.HasAuthoredTimeCodeRange() and stage.GetStartTimeCode() < stage.GetEndTimeCode()
    time = Usd.TimeCode.EarliestTime()
    scene = _Scene(stage, time, file.limits, UsdMaterials(file, time))
    parts = list(scene.parts())
    up: Axis = "z" if UsdGeom.GetStageUpAxis(stage) == UsdGeom.Tokens.z else "y"
    has_unit = UsdGeom.StageHasAuthoredMetersPerUnit(stage)
    metres = UsdGeom.GetStageMetersPerUnit(stage) if has_unit else None
    notes = [*scene.materials.decoder.notes, *scene.notes()]
    return MeshContents(parts, notes, up, metres, animated=bool(animated))


@dataclass
class _Scene:
    stage: UsdObject
    time: UsdObject
    limits: MeshLimits
    materials: UsdMaterials
    left_out: Counter[str] = field(default_factory=Counter)
    _meshes: int = 0
    _faces: int = 0
    _vertices: int = 0

    def notes(self) -> list[str]:
        return [f"left out: {count} × {kind}, which is no mesh" for kind, count in self.left_out.items()]

    def parts(self) -> Iterator[MeshPart]:
        """The meshes of the scene, in the world."""
        from pxr import Usd, UsdGeom

        places = UsdGeom.XformCache(self.time)
        every = Usd.TraverseInstanceProxies(Usd.PrimDefaultPredicate)
        prims = Usd.PrimRange(self.stage.GetPseudoRoot(), every)
        for number, prim in enumerate(prims):
            self.limits.check("prims", number, _MOST_PRIMS)
            if not prim.IsA(UsdGeom.Gprim) and not prim.IsA(UsdGeom.PointInstancer):
                continue
            shown = UsdGeom.Imageable(prim)
            if shown.ComputeVisibility(self.time) == UsdGeom.Tokens.invisible:
                continue
            if shown.ComputePurpose() not in _DRAWN_PURPOSES:
                continue
            if not prim.IsA(UsdGeom.Mesh):
                self.left_out[str(prim.GetTypeName())] += 1
                continue
            self._meshes += 1
            self.limits.check("instances", self._meshes, self.limits.instances)
            matrix = np.array(places.GetLocalToWorldTransform(prim)).T  # of row vectors
            yield from self._mesh_parts(prim, matrix)

    def _mesh_parts(self, prim: UsdObject, matrix: Float[np.ndarray, "4 4"]) -> Iterator[MeshPart]:
        from pxr import UsdGeom, UsdShade

        mesh = UsdGeom.Mesh(prim)
        points = _array(mesh.GetPointsAttr().Get(self.time), np.float64, 3)
        faces = _Faces.of(mesh, self.time)
        self._faces += len(faces.corners)
        self._vertices += len(points)
        self.limits.check("faces", self._faces, self.limits.faces)
        self.limits.check("vertices", self._vertices, self.limits.vertices)
        check_indices(faces.vertices, len(points))
        vertices = transform_points(points, matrix)
        normals = self._normals(mesh, faces, matrix)
        colors = self._colors(prim, faces)
        binding = UsdShade.MaterialBindingAPI(prim)
        for chosen, bound in self._groups(binding, faces):
            material, name = _BARE if colors is None else _WHITE, USUAL_UV
            if bound:
                material, name = self.materials.read(bound)
            uv = self._primvar(prim, name, 2, faces)
            yield MeshPart.unshared(
                vertices[faces.vertices[chosen].ravel()],
                material,
                normals=None if normals is None else normals[chosen].reshape(-1, 3),
                uv=None
                if uv is None
                else (uv[chosen].reshape(-1, 2) * _UV_FLIP + _UV_SHIFT).astype(np.float32),
                colors=None if colors is None or bound else colors[chosen].reshape(-1, 4),
            )

    def _groups(
        self, binding: UsdObject, faces: "_Faces"
    ) -> Iterator[tuple[Bool[np.ndarray, " f"], UsdObject]]:
        """Triangles that have the same material: those of each subset, then the others."""
        from pxr import UsdShade

        rest = np.ones(len(faces.corners), bool)
        for subset in binding.GetMaterialBindSubsets():
            listed = np.array(subset.GetIndicesAttr().Get(self.time) or (), np.int64)
            chosen = rest & np.isin(faces.polygons, listed)
            rest &= ~chosen
            if chosen.any():
                yield chosen, UsdShade.MaterialBindingAPI(subset).ComputeBoundMaterial()[0]
        if rest.any():
            yield rest, binding.ComputeBoundMaterial()[0]

    def _normals(
        self,
        mesh: UsdObject,
        faces: "_Faces",
        matrix: Float[np.ndarray, "4 4"],
    ) -> Float32[np.ndarray, "f 3 3"] | None:
        """The file's normals in the world; None where it has none that fit."""
        normals = self._primvar(mesh.GetPrim(), "normals", 3, faces)
        if normals is None:
            raw = mesh.GetNormalsAttr().Get(self.time)
            values = None if raw is None else _array(raw, np.float32, 3)
            normals = None if values is None else faces.spread(values, mesh.GetNormalsInterpolation())
        if normals is None:
            return None
        upright = np.linalg.pinv(matrix[:3, :3]).T  # their length is mended later
        return np.asarray(rotate_vectors(normals, upright.astype(np.float32)), np.float32)

    def _colors(self, prim: UsdObject, faces: "_Faces") -> Float32[np.ndarray, "f 3 4"] | None:
        """Its display colours, which are linear light."""
        colors = self._primvar(prim, "displayColor", 3, faces)
        if colors is None:
            return None
        opaque: Colors = np.ones((*colors.shape[:2], 4), np.float32)
        opaque[..., :3] = colors
        return opaque

    def _primvar(
        self,
        prim: UsdObject,
        name: str,
        width: int,
        faces: "_Faces",
    ) -> Float32[np.ndarray, "f 3 c"] | None:
        """Values of a primvar at the corners of all triangles; None where it has none that fit."""
        from pxr import UsdGeom

        primvar = UsdGeom.PrimvarsAPI(prim).FindPrimvarWithInheritance(name)
        raw = primvar.ComputeFlattened(self.time) if primvar and primvar.HasValue() else None
        if raw is None or not hasattr(raw, "__len__"):
            return None
        values = np.array(raw, np.float32)
        if values.ndim != 2 or values.shape[1] != width:
            return None
        return faces.spread(values, primvar.GetInterpolation())


@dataclass(frozen=True, eq=False)
class _Faces:
    """The polygons of a mesh as fans of triangles, by three numbers of each triangle."""

    polygons: Int64[np.ndarray, " f"]  # which polygon it is of
    corners: Corners  # places among the corners of all polygons
    vertices: Corners
    polygon_count: int
    vertex_count: int

    @classmethod
    def of(cls, mesh: UsdObject, time: UsdObject) -> "_Faces":
        """The faces of a mesh but for its holes."""
        counts = np.array(mesh.GetFaceVertexCountsAttr().Get(time) or (), np.int64)
        indices = np.array(mesh.GetFaceVertexIndicesAttr().Get(time) or (), np.int64)
        if counts.size and (counts.min() < 0 or counts.sum() != len(indices)):
            raise MeshError("the usd file is damaged: its faces have other corners than it says.")
        fans = np.maximum(counts - 2, 0)
        fans[[one for one in mesh.GetHoleIndicesAttr().Get(time) or () if 0 <= one < len(fans)]] = 0
        polygons = np.repeat(np.arange(len(counts)), fans)
        first = (np.cumsum(counts) - counts)[polygons]
        nth = np.arange(len(polygons)) - np.repeat(np.cumsum(fans) - fans, fans)
        corners = np.stack([first, first + nth + 1, first + nth + 2], axis=1)
        points = mesh.GetPointsAttr().Get(time)
        return cls(polygons, corners, indices[corners], len(counts), 0 if points is None else len(points))

    def spread(self, values: Float32[np.ndarray, "n c"], kind: str) -> Float32[np.ndarray, "f 3 c"] | None:
        """Values at the corners of all triangles; None if there are too few of them for their kind."""
        places = {
            "constant": np.zeros_like(self.corners),
            "uniform": np.repeat(self.polygons[:, None], 3, axis=1),
            "vertex": self.vertices,
            "varying": self.vertices,
            "faceVarying": self.corners,
        }.get(kind)
        if places is None or not len(values) or places.max(initial=0) >= len(values):
            return None
        return np.asarray(values[places])


def _array(values: UsdObject, kind: type, width: int) -> UsdObject:
    """Its arrays as ours; an empty one if there is none."""
    return np.array(values if values is not None else (), kind).reshape(-1, width)
