"""Point clouds as parts: each point becomes a small octahedron, shaded like a ball or by the cloud's normals.

Their size follows the mean spacing of the points, taken as lying on a surface: the area of the cells of a
grid that hold points, divided by the number of points.
"""

import numpy as np
from jaxtyping import Float64

from renderers.contracts import Colors, MeshError, MeshLimits, MeshMaterial, MeshPart, Normals, Points

FACES_PER_POINT = 8
_TIPS = np.array([(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)], np.float64)
_SIDES = np.array(
    [(0, 2, 4), (2, 1, 4), (1, 3, 4), (3, 0, 4), (2, 0, 5), (1, 2, 5), (3, 1, 5), (0, 3, 5)], np.int64
)
_RADIUS = 1.0  # of the spacing: neighbours overlap, and points strewn at random leave few holes
_LEAST, _MOST = 0.002, 0.05  # radius as a share of the cloud's extent
_GRIDS = (256, 128, 64, 32, 16, 8)
_CROWDED = 4  # points in a cell, on average, for a grid to tell the area


def point_cloud(
    points: Points, normals: Normals | None, colors: Colors | None, material: MeshMaterial, limits: MeshLimits
) -> tuple[MeshPart, list[str]]:
    """The cloud as a part, and a note if it was too large to draw all of it."""
    if not np.isfinite(points).all():
        raise MeshError("the file is damaged: some of its points lie at infinity or nowhere (NaN).")
    chosen = np.arange(len(points))
    notes = list[str]()
    if len(points) > limits.points:  # some spread over all of them, the same every time
        order = np.argsort(np.arange(len(points), dtype=np.uint64) * 2654435761 % (1 << 32), kind="stable")
        chosen = np.sort(order[: limits.points])
        notes = [f"{len(chosen):,} of its {len(points):,} points are drawn"]
    centres = points[chosen]
    tips = centres[:, None] + _radius(centres) * _TIPS
    shading = np.broadcast_to(_TIPS.astype(np.float32), tips.shape)
    if normals is not None:
        shading = np.repeat(normals[chosen][:, None], len(_TIPS), axis=1)
    faces = (np.arange(len(chosen))[:, None, None] * len(_TIPS) + _SIDES).reshape(-1, 3)
    dyed = None if colors is None else np.repeat(colors[chosen], len(_TIPS), axis=0)
    part = MeshPart(tips.reshape(-1, 3), faces, material, shading.reshape(-1, 3), colors=dyed, is_cloud=True)
    return part, notes


def _radius(points: Points) -> float:
    low = points.min(axis=0)
    extent = float((points.max(axis=0) - low).max())
    if not 0 < extent < np.inf:
        raise MeshError("the mesh has no extent: all of its points are the same, or it is infinitely large.")
    return float(np.clip(_RADIUS * _spacing((points - low) / extent), _LEAST, _MOST)) * extent


def _spacing(places: Float64[np.ndarray, "n 3"]) -> float:
    """The mean distance between neighbours on a surface; places lie in the unit cube."""
    cells = 1
    for grid in _GRIDS:
        column, row, layer = np.minimum((places * grid).astype(np.int64), grid - 1).T
        cells = len(np.unique((column * grid + row) * grid + layer))
        if len(places) >= _CROWDED * cells:
            break
    return float(np.sqrt(cells / len(places)) / grid)
