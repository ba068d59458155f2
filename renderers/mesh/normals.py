"""Normals for meshes that bring none, or broken ones: smooth over gentle bends, sharp at edges.

At each corner of a face: the area-weighted mean of the faces around that point which lie within 40 degrees
of this one, *whatever their winding*. Points are the same where their coordinates are the same, since STL
shares no vertices; winding is ignored, since ShapeNet doubles faces with opposite windings, and their
normals cancel.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float32, Int64

from renderers.contracts import Points, Triangles

CREASE_COSINE = 0.77
MOST_FACES_AROUND = 32  # points with more (the tips of fans) keep flat normals
MOST_FACES = 400_000  # denser meshes look smooth with flat normals
_PAIRS_AT_ONCE = 2_000_000


def corner_normals(vertices: Points, faces: Triangles) -> Float32[np.ndarray, "f 3 3"]:
    """A unit normal for each corner of each face."""
    first, second, third = vertices[faces[:, 0]], vertices[faces[:, 1]], vertices[faces[:, 2]]
    areas = np.cross(second - first, third - first)
    flat = areas / np.maximum(np.linalg.norm(areas, axis=1, keepdims=True), 1e-30)  # zero without area
    normals = np.repeat(flat, 3, axis=0)
    if len(faces) <= MOST_FACES:
        points = _points(vertices)[faces].ravel()
        for corner, pair_corner, pair_face in _neighbours(points):
            bend = np.einsum("pi,pi->p", flat[corner // 3][pair_corner], flat[pair_face])
            weight = np.where(np.abs(bend) > CREASE_COSINE, np.sign(bend), 0.0)
            sums = (weight * areas[pair_face, axis] for axis in range(3))
            mean = np.stack([np.bincount(pair_corner, one, len(corner)) for one in sums], axis=1)
            length = np.linalg.norm(mean, axis=1, keepdims=True)
            normals[corner] = np.where(length > 0, mean / np.maximum(length, 1e-30), normals[corner])
    return normals.reshape(-1, 3, 3).astype(np.float32)


def fill_missing_normals(
    normals: Float32[np.ndarray, "f 3 3"],
    missing: Bool[np.ndarray, "f 3"],
    vertices: Points,
    faces: Triangles,
) -> Float32[np.ndarray, "f 3 3"]:
    """The same with ours for the corners that miss theirs; only the faces around those are visited."""
    if not missing.any():
        return normals
    points = _points(vertices)[faces]
    bare = np.zeros(points.max() + 1, bool)
    bare[points[missing]] = True
    near = np.flatnonzero(bare[points].any(axis=1))
    used, around = np.unique(faces[near], return_inverse=True)
    ours = corner_normals(vertices[used], around.reshape(-1, 3))
    filled = normals.copy()
    filled[near] = np.where(missing[near, :, None], ours, normals[near])
    return filled


def _points(vertices: Points) -> Int64[np.ndarray, " n"]:
    """A number for each vertex, equal where the coordinates are equal in float32."""
    exact = vertices.astype(np.float32) + np.float32(0)  # which turns a negative zero into zero
    bits = exact.view(np.int32).astype(np.int64)
    mixed = (bits[:, 0] * 73856093) ^ (bits[:, 1] * 19349663 << 16) ^ (bits[:, 2] * 83492791 << 29)
    return np.asarray(np.unique(mixed, return_inverse=True)[1].ravel())


def _neighbours(
    points: Int64[np.ndarray, " c"],
) -> Iterator[tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " p"], Int64[np.ndarray, " p"]]]:
    """Pieces of (corners, and as pairs: place among those corners, face around that corner's point)."""
    order = np.argsort(points, kind="stable")
    around = np.bincount(points)
    begin = np.cumsum(around) - around
    corners = order[around[points[order]] <= MOST_FACES_AROUND]
    ends = np.cumsum(around[points[corners]])
    start = 0
    while start < len(corners):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _PAIRS_AT_ONCE, "right")))
        piece = corners[start:stop]
        counts = around[points[piece]]
        mine = np.repeat(np.arange(stop - start), counts)
        nth = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts)
        yield piece, mine, order[begin[points[piece]][mine] + nth] // 3
        start = stop
