"""Points and directions through matrices.

With einsum rather than `@`: its sums don't depend on the BLAS at hand, on its threads or on the number of
rows, so the same file gives the same numbers everywhere.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Float64

from renderers.contracts import Matrix, Points


def transform_points(points: Points, places: Float64[np.ndarray, "*p 4 4"]) -> Points:
    """Points through one affine matrix, or each through its own."""
    return np.asarray(rotate_vectors(points, places[..., :3, :3]) + places[..., :3, 3])


def rotate_vectors(
    vectors: Float[np.ndarray, "*v 3"], matrices: Float[np.ndarray, "*m 3 3"]
) -> Float[np.ndarray, "*v 3"]:
    """Rows through one matrix, or each through its own."""
    return np.asarray(np.einsum("...ij,...j->...i", matrices, vectors))


def placement_matrix(translation: Any, rotation: Any, scale: Any) -> Matrix:  # noqa: ANN401 (any sequence of numbers)
    """The matrix that scales, then turns (by a quaternion x, y, z, w of any length), then moves."""
    length = np.linalg.norm(rotation)
    x, y, z, w = np.asarray(rotation) / length if length > 0 else (0.0, 0.0, 0.0, 1.0)
    turn = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    matrix = np.eye(4)
    matrix[:3, :3] = np.array(turn) * scale
    matrix[:3, 3] = translation
    return matrix
