"""From which sides a part can be seen, measured: points on all surfaces, the nearest kept in each pixel.

The views are orthographic; the four around look down by ELEVATION degrees, the fifth straight from above.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64

from training.data.furniture.modeling.facts import Side
from training.data.furniture.modeling.primitives import PartMesh, Points

ELEVATION = 20.0
GRID = 48  # pixels across the piece
DENSITY = 2.0  # points on a pixel's area
SLACK = 0.6  # pixels of depth within which a surface counts as the nearest
LEAST_PIXELS = 3
LEAST_SHARE = 0.2  # of what the best side shows
AZIMUTHS: Mapping[Side, float] = {"front": 0.0, "right": 90.0, "back": 180.0, "left": 270.0}
STEPS = np.array([0.7548776662466927, 0.5698402909980532])  # of the R2 sequence, which fills a square evenly


def visible_sides(meshes: Sequence[PartMesh]) -> list[frozenset[Side]]:
    """The sides from which each of the meshes shows a fair share of itself, the others being in the way."""
    corners = np.concatenate([mesh.vertices[mesh.faces] for mesh in meshes])
    owner = np.repeat(np.arange(len(meshes)), [len(mesh.faces) for mesh in meshes])
    vertices = np.concatenate([mesh.vertices for mesh in meshes])
    low, high = vertices.min(0), vertices.max(0)
    pixel = float(np.linalg.norm(high - low)) / GRID
    corners = (corners - (low + high) / 2) / pixel
    outward = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    points, face = _scatter(corners, np.linalg.norm(outward, axis=1) / 2)
    owner, outward, views = owner[face], outward[face], _views()
    shown = np.stack([_shown(points, owner, outward @ pose[2] > 0, pose) for pose in views.values()], 1)
    fair = (shown >= LEAST_PIXELS) & (shown >= LEAST_SHARE * shown.max(1, keepdims=True))
    return [frozenset(side for side, good in zip(views, row, strict=True) if good) for row in fair]


def _scatter(
    corners: Float64[np.ndarray, "f 3 3"], areas: Float64[np.ndarray, " f"]
) -> tuple[Points, Int64[np.ndarray, " v"]]:
    """Points spread evenly over the faces, and the face of each."""
    numbers = np.ceil(areas * DENSITY).astype(np.int64)
    face = np.repeat(np.arange(len(areas)), numbers)
    step = np.arange(len(face)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    square = (step[:, None] * STEPS + 0.5) % 1
    folded = np.where(square.sum(1, keepdims=True) > 1, 1 - square, square)
    weights = np.concatenate([1 - folded.sum(1, keepdims=True), folded], 1)
    points: Points = np.einsum("vc,vcx->vx", weights, corners[face])
    return points, face


def _views() -> dict[Side, Float64[np.ndarray, "3 3"]]:
    """For each side the rows right, up and towards the eye."""
    poses = {side: _pose(azimuth, ELEVATION) for side, azimuth in AZIMUTHS.items()}
    return {**poses, "above": _pose(0.0, 90.0)}


def _pose(azimuth: float, elevation: float) -> Float64[np.ndarray, "3 3"]:
    a, e = np.radians([azimuth, elevation])
    eye = np.array([np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)])
    right = np.array([np.cos(a), 0.0, -np.sin(a)])
    return np.stack([right, np.cross(eye, right), eye])


def _shown(
    points: Points,
    owner: Int64[np.ndarray, " v"],
    towards: Bool[np.ndarray, " v"],
    pose: Float64[np.ndarray, "3 3"],
) -> Int64[np.ndarray, " meshes"]:
    """How many pixels of one view show each mesh."""
    across, up, depth = pose @ points[towards].T
    pixel = np.floor(across + GRID / 2).astype(np.int64).clip(0, GRID - 1) * GRID
    pixel += np.floor(up + GRID / 2).astype(np.int64).clip(0, GRID - 1)
    nearest = np.full(GRID * GRID, -np.inf)
    np.maximum.at(nearest, pixel, depth)
    clear = depth > nearest[pixel] - SLACK
    painted = np.zeros((int(owner.max()) + 1, GRID * GRID), bool)
    painted[owner[towards][clear], pixel[clear]] = True
    pixels: Int64[np.ndarray, " meshes"] = painted.sum(1)
    return pixels
