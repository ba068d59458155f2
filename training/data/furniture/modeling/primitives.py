"""Meshes as plain arrays. Y is up, the front is +Z, lengths are metres (the glTF convention).

Texture coordinates are metres too: u runs along the grain (a part's longer side, a turned part's height),
v across it. Faces turn counter-clockwise seen from outside; sharp edges share no vertices.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int64

Length: TypeAlias = float | int  # runtime checks do not take an int for a float
Point: TypeAlias = tuple[Length, Length, Length]
Points: TypeAlias = Float64[np.ndarray, "v 3"]
Faces: TypeAlias = Int64[np.ndarray, "f 3"]
Profile: TypeAlias = Sequence[tuple[Length, Length]]  # (radius, height), outside is right of the way up

FLAT_SLOPE = 3.0  # a turned band that widens faster than it rises by this much is mapped from above
AXES = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True)
class PartMesh:
    """Triangles with a normal and a texture coordinate at each vertex."""

    vertices: Points
    normals: Points
    uv: Float64[np.ndarray, "v 2"]
    faces: Faces


def merge(meshes: Iterable[PartMesh]) -> PartMesh:
    group = list(meshes)
    starts = np.cumsum([0] + [len(mesh.vertices) for mesh in group])
    faces = [mesh.faces + start for mesh, start in zip(group, starts[:-1], strict=True)]
    columns = zip(*((mesh.vertices, mesh.normals, mesh.uv) for mesh in group), strict=True)
    vertices, normals, uv = map(np.concatenate, columns)
    return PartMesh(vertices, normals, uv, np.concatenate(faces))


def move(mesh: PartMesh, offset: Point) -> PartMesh:
    return PartMesh(mesh.vertices + np.asarray(offset, float), mesh.normals, mesh.uv, mesh.faces)


def turn(mesh: PartMesh, axis: str, degrees: Length) -> PartMesh:
    """The mesh, turned about an axis through the origin by the right-hand rule."""
    first, second = (AXES[axis] + 1) % 3, (AXES[axis] + 2) % 3
    angle = np.radians(degrees)
    rotation = np.eye(3)
    rotation[first, first] = rotation[second, second] = np.cos(angle)
    rotation[second, first] = np.sin(angle)
    rotation[first, second] = -np.sin(angle)
    return PartMesh(mesh.vertices @ rotation.T, mesh.normals @ rotation.T, mesh.uv, mesh.faces)


def stretch(mesh: PartMesh, factors: Point) -> PartMesh:
    factor = np.asarray(factors, float)
    normals = mesh.normals / factor
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return PartMesh(mesh.vertices * factor, normals, mesh.uv, mesh.faces)


def box(size: Point, centre: Point = (0.0, 0.0, 0.0)) -> PartMesh:
    halves = np.asarray(size, float) / 2
    return move(_grid_box([np.array([-half, half]) for half in halves], halves), centre)


def cushion(size: Point, centre: Point = (0.0, 0.0, 0.0), rounding: Length = 0.4) -> PartMesh:
    """A box with round edges; `rounding` 1 makes the thinnest way round all through."""
    halves = np.asarray(size, float) / 2
    radius = rounding * halves.min()
    steps = np.array([0.0, 0.4, 1.0]) * radius
    lines = [np.concatenate([steps - half, (half - steps)[::-1]]) for half in halves]
    cube = _grid_box(lines, halves)
    core = np.clip(cube.vertices, radius - halves, halves - radius)
    outward = cube.vertices - core
    normals = outward / np.linalg.norm(outward, axis=1, keepdims=True)
    return move(PartMesh(core + radius * normals, normals, cube.uv, cube.faces), centre)


def _grid_box(lines: list[Float64[np.ndarray, " _"]], halves: Float64[np.ndarray, "3"]) -> PartMesh:
    """The six sides of a box, each a grid through the given lines."""
    sides = []
    for axis, sign in product(range(3), (-1, 1)):
        across, up = ((axis + place) % 3 for place in ((1, 2) if sign > 0 else (2, 1)))
        grid = np.stack(np.meshgrid(lines[across], lines[up], indexing="ij"), -1).reshape(-1, 2)
        vertices = np.empty((len(grid), 3))
        vertices[:, axis] = sign * halves[axis]
        vertices[:, across] = grid[:, 0]
        vertices[:, up] = grid[:, 1]
        normals = np.zeros_like(vertices)
        normals[:, axis] = sign
        grain = (across, up) if halves[across] >= halves[up] else (up, across)
        corner = np.arange(len(grid)).reshape(len(lines[across]), len(lines[up]))
        a, b, c, d = corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:]
        faces = np.stack([a, b, c, a, c, d], -1).reshape(-1, 3).astype(np.int64)
        sides.append(PartMesh(vertices, normals, vertices[:, grain], faces))
    return merge(sides)


def lathe(profile: Profile, segments: int = 20, faceted: bool = False) -> PartMesh:
    """A profile turned about the Y axis; faceted, its sides are flat and the first looks to +Z."""
    turns = np.arange(segments + 1) - (0.5 if faceted else 0.0)
    angles = facing = turns * 2 * np.pi / segments
    if faceted:
        angles = np.repeat(angles, 2)[1:-1]
        facing = np.repeat((turns[:-1] + 0.5) * 2 * np.pi / segments, 2)
    widest = max(radius for radius, _ in profile)
    bands = []
    along = 0.0
    for low, high in pairwise(profile):
        bands.append(_band(np.array([low, high], float), along, widest, angles, facing))
        along += float(np.hypot(high[0] - low[0], high[1] - low[1]))
    return merge(bands)


def _band(
    ends: Float64[np.ndarray, "2 2"],
    along: float,
    widest: float,
    angles: Float64[np.ndarray, " k"],
    facing: Float64[np.ndarray, " k"],
) -> PartMesh:
    wider, higher = ends[1] - ends[0]
    count = len(angles)
    length = float(np.hypot(wider, higher))
    radius, height = np.repeat(ends[:, 0], count), np.repeat(ends[:, 1], count)
    angle, face = np.tile(angles, 2), np.tile(facing, 2)
    vertices = np.stack([radius * np.sin(angle), height, radius * np.cos(angle)], -1)
    tilt = higher / length
    normals = np.stack([tilt * np.sin(face), np.full(2 * count, -wider / length), tilt * np.cos(face)], -1)
    uv = np.stack([np.repeat([along, along + length], count), angle * widest], -1)
    if abs(wider) > FLAT_SLOPE * abs(higher):
        uv = vertices[:, [0, 2]]
    return PartMesh(vertices, normals, uv, _band_faces(ends, facing))


def _band_faces(ends: Float64[np.ndarray, "2 2"], facing: Float64[np.ndarray, " k"]) -> Faces:
    count = len(facing)
    paired = count > 1 and facing[0] == facing[1]
    left = np.arange(0, count - 1, 2 if paired else 1)
    low = np.stack([left, left + 1, left + 1 + count], -1)
    high = np.stack([left, left + 1 + count, left + count], -1)
    triangles = [faces for faces, radius in ((low, ends[0, 0]), (high, ends[1, 0])) if radius > 0]
    return np.concatenate(triangles).astype(np.int64)


def rod(start: Point, end: Point, radius: Length, tip: Length | None = None, sides: int = 10) -> PartMesh:
    """A round bar from one point to another, thinner or thicker at its tip; with 4 sides, a square one."""
    way = np.asarray(end, float) - np.asarray(start, float)
    length = float(np.linalg.norm(way))
    last = radius if tip is None else tip
    profile = [(0.0, 0.0), (radius, 0.0), (last, length), (0.0, length)]
    upright = lathe(profile, sides, faceted=sides <= 6)
    return move(_aimed(upright, way / length), start)


def _aimed(mesh: PartMesh, way: Float64[np.ndarray, "3"]) -> PartMesh:
    """The mesh with its Y axis laid along `way`, turned as little as can be."""
    if way[1] < -1 + 1e-9:
        return turn(mesh, "x", 180)
    x, y, z = way
    k = 1 / (1 + y)
    rotation = np.array([[1 - k * x * x, x, -k * x * z], [-x, y, -z], [-k * x * z, z, 1 - k * z * z]])
    return PartMesh(mesh.vertices @ rotation.T, mesh.normals @ rotation.T, mesh.uv, mesh.faces)


def ball(radius: Length, centre: Point = (0.0, 0.0, 0.0), segments: int = 14) -> PartMesh:
    angles = np.linspace(-np.pi / 2, np.pi / 2, segments // 2 + 1)
    profile = [(max(0.0, radius * float(np.cos(a))), radius * float(np.sin(a))) for a in angles]
    profile[0], profile[-1] = (0.0, -radius), (0.0, radius)
    return move(lathe(profile, segments), centre)


def disc(radius: Length, height: Length, centre: Point = (0.0, 0.0, 0.0), segments: int = 24) -> PartMesh:
    half = height / 2
    profile = [(0.0, -half), (radius, -half), (radius, half), (0.0, half)]
    return move(lathe(profile, segments), centre)


def ring(radius: Length, thickness: Length, height: Length, segments: int = 24) -> PartMesh:
    inner, half = radius - thickness, height / 2
    profile = [(inner, -half), (radius, -half), (radius, half), (inner, half), (inner, -half)]
    return lathe(profile, segments)
