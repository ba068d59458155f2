"""Points and directions through matrices.

With einsum rather than `@`: its sums don't depend on the BLAS at hand, on its threads or on the number of
rows, so the same file gives the same numbers everywhere.
"""

import numpy as np
from jaxtyping import Float, Float64


def transform_points(
    points: Float64[np.ndarray, "n 3"], matrix: Float64[np.ndarray, "4 4"]
) -> Float64[np.ndarray, "n 3"]:
    """Points through one affine matrix."""
    places: Float64[np.ndarray, "n 3"] = rotate_vectors(points, matrix[:3, :3]) + matrix[:3, 3]
    return places


def rotate_vectors(
    vectors: Float[np.ndarray, "n 3"], matrix: Float[np.ndarray, "3 3"]
) -> Float[np.ndarray, "n 3"]:
    """Rows through one matrix."""
    turned: Float[np.ndarray, "n 3"] = np.einsum("ij,nj->ni", matrix, vectors)
    return turned


def rotate_each(
    vectors: Float[np.ndarray, "n 3"], matrices: Float[np.ndarray, "n 3 3"]
) -> Float[np.ndarray, "n 3"]:
    """Each row through its own matrix."""
    turned: Float[np.ndarray, "n 3"] = np.einsum("nij,nj->ni", matrices, vectors)
    return turned


def placement_matrix(
    translation: Float64[np.ndarray, "3"], rotation: Float64[np.ndarray, "4"], scale: Float64[np.ndarray, "3"]
) -> Float64[np.ndarray, "4 4"]:
    """The matrix that scales, then turns (by a quaternion x, y, z, w), then moves."""
    matrix = np.eye(4)
    matrix[:3, :3] = _turn(rotation) * scale
    matrix[:3, 3] = translation
    return matrix


def _turn(quaternion: Float64[np.ndarray, "4"]) -> Float64[np.ndarray, "3 3"]:
    """The rotation of a quaternion, which is brought to unit length."""
    length = np.linalg.norm(quaternion)
    x, y, z, w = quaternion / length if length > 0 else (0.0, 0.0, 0.0, 1.0)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
