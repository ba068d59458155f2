"""A model as some cameras see it, with what is the same all over a face worked out once.

Legend: v views · q visible faces, each counted once in every view that shows it · k fragments.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Float32, Float64, Int32, Int64

from renderers.contracts import MeshMaterial, MeshModel
from renderers.raster.light import lamp_directions


@dataclass(frozen=True, eq=False)
class Fragments:
    """One face at one place of one view, k times; places are on the screen, in samples."""

    view: Int64[np.ndarray, " k"]
    face: Int32[np.ndarray, " k"]
    x: Float64[np.ndarray, " k"]
    y: Float64[np.ndarray, " k"]

    def __len__(self) -> int:
        return len(self.face)

    def __getitem__(self, piece: slice) -> "Fragments":
        return Fragments(self.view[piece], self.face[piece], self.x[piece], self.y[piece])


@dataclass(frozen=True, eq=False)
class RasterScene:
    """A model, the cameras and where its vertices lie on the screen."""

    model: MeshModel
    poses: Float64[np.ndarray, "v 4 4"]
    screen: Float64[np.ndarray, "v n 3"]  # x, y in samples and 1/distance
    pixel: int  # the side of a pixel, in samples

    @cached_property
    def lamps(self) -> tuple[Float32[np.ndarray, "3 v"], Float32[np.ndarray, "3 v"]]:
        """The directions of the key and the fill light of each view."""
        return lamp_directions(self.poses)

    @cached_property
    def eyes(self) -> Float32[np.ndarray, "3 v"]:
        """Where each camera stands."""
        return self.poses[:, :3, 3].T.astype(np.float32)

    @property
    def uv_sets(self) -> int:
        """How many texture coordinates each vertex has."""
        return 1 if self.model.uv1 is None else 2

    @cached_property
    def materials(self) -> Float32[np.ndarray, "10 m"]:
        """The material table."""
        return material_table(self.model.materials)


def material_table(materials: Sequence[MeshMaterial]) -> Float32[np.ndarray, "10 m"]:
    """Base (4), emissive (3), metallic, roughness, unlit of each material."""
    rows = [(*one.base, *one.emissive, one.metallic, one.roughness, one.unlit) for one in materials]
    return np.array(rows, np.float32).T.copy()


@dataclass(frozen=True, eq=False)
class VisibleFaces:
    """What is the same all over a face in a view; rows belong to the faces that `number` points at."""

    number: Int64[np.ndarray, " k"]  # of each fragment
    planes: Float64[np.ndarray, "q 9"]  # corner weights over the screen, before perspective is undone
    table: Float32[np.ndarray, "q t"]  # what is interpolated, corner by corner; then normal and densities


def visible_faces(scene: RasterScene, at: Fragments) -> VisibleFaces:
    """The faces of these fragments."""
    faces = len(scene.model.faces)
    marks = np.zeros(len(scene.poses) * faces, np.int64)
    pairs = at.view * faces + at.face
    marks[pairs] = 1
    shown = np.flatnonzero(marks)
    marks[shown] = np.arange(len(shown))
    view, face = np.divmod(shown, faces)
    corners = scene.model.faces[face]
    screen = scene.screen[view[:, None], corners]
    return VisibleFaces(marks[pairs], _planes(screen), _table(scene, view, face, screen))


def _planes(screen: Float64[np.ndarray, "q 3 3"]) -> Float64[np.ndarray, "q 9"]:
    """For each corner the a, b, c of (a x + b y + c): 0 on the opposite edge, growing towards the corner."""
    after, before = screen[:, [1, 2, 0]], screen[:, [2, 0, 1]]
    moved = after[..., 0] * before[..., 1] - after[..., 1] * before[..., 0]
    planes = np.stack([after[..., 1] - before[..., 1], before[..., 0] - after[..., 0], moved], axis=2)
    planes *= (np.sign(doubled_area(screen))[:, None] * screen[..., 2])[..., None]
    return planes.reshape(-1, 9)


def _table(
    scene: RasterScene,
    view: Int64[np.ndarray, " q"],
    face: Int64[np.ndarray, " q"],
    screen: Float64[np.ndarray, "q 3 3"],
) -> Float32[np.ndarray, "q t"]:
    """Position, normal, uv, perhaps colour and second uv of corners; the flat normal; density by each uv."""
    model, corners = scene.model, scene.model.faces[face]
    points, uv = model.vertices[corners], model.uv[corners]
    colors = [model.colors[corners]] if scene.model.colored else []
    second = [] if model.uv1 is None else [model.uv1[corners]]
    mixed = np.concatenate([points, model.normals[face], uv, *colors, *second], axis=2)
    flat = np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])
    away = np.einsum("qi,qi->q", flat, scene.eyes.T[view] - points[:, 0]) < 0
    flat[away] *= -1
    density = [_density(screen, one, scene.pixel)[:, None] for one in (uv, *second)]
    return np.concatenate([mixed.reshape(len(face), 3 * mixed.shape[2]), flat, *density], axis=1)


def _density(
    screen: Float64[np.ndarray, "q 3 3"], uv: Float32[np.ndarray, "q 3 2"], pixel: int
) -> Float32[np.ndarray, " q"]:
    """log2 of the length in texture coordinates that a pixel covers."""
    screen_area = np.maximum(np.abs(doubled_area(screen)), 1e-6) / pixel**2
    uv_area = np.maximum(np.abs(doubled_area(uv)), np.float32(1e-12))
    return np.asarray(0.5 * np.log2(uv_area / screen_area), np.float32)


def doubled_area(corners: Float[np.ndarray, "q 3 c"]) -> Float[np.ndarray, " q"]:
    """Twice the area of triangles in the plane, negative if they turn the other way."""
    first, second = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    return np.asarray(first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0])
