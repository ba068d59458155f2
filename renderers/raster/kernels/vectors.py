"""Three float32 numbers as a direction or a colour; each operation in the order of its numpy twin."""

from typing import TypeAlias

import numpy as np

from renderers.raster.kernels.compiling import Single, inline_kernel

Vector: TypeAlias = tuple[Single, Single, Single]
_SHORTEST = np.float32(1e-20)


@inline_kernel
def dot(first: Vector, second: Vector) -> Single:
    return first[0] * second[0] + first[1] * second[1] + first[2] * second[2]


@inline_kernel
def add(first: Vector, second: Vector) -> Vector:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


@inline_kernel
def subtract(first: Vector, second: Vector) -> Vector:
    return first[0] - second[0], first[1] - second[1], first[2] - second[2]


@inline_kernel
def scale_by(vector: Vector, by: Single) -> Vector:
    return vector[0] * by, vector[1] * by, vector[2] * by


@inline_kernel
def cross(first: Vector, second: Vector) -> Vector:
    return (
        first[1] * second[2] - first[2] * second[1],
        first[2] * second[0] - first[0] * second[2],
        first[0] * second[1] - first[1] * second[0],
    )


@inline_kernel
def unit_vector(vector: Vector) -> Vector:
    """A vector of length one; one without length stays zero."""
    length = max(np.sqrt(dot(vector, vector)), _SHORTEST)
    return vector[0] / length, vector[1] / length, vector[2] / length
