"""Samples -> what to shade in each pixel.

A pixel is 2 by 2 samples. A face is shaded once in a pixel, in the middle of the samples it has there, and
weighs as much as they let through: all of it behind nothing, less behind glass. Small faces of one material
that lie beside each other, on the surface and in its texture, and face the same way count as one, the first
of them: on dense meshes they would be shaded apart and look alike.

Shape legend: v views · s samples along a side · p pixels of all views · k fragments · e pixels at edges.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32, Int64, Shaped

from renderers.contracts import MeshModel
from renderers.raster.scene import Fragments, RasterScene
from renderers.raster.spans import DEPTH_BITS, faces_of

SAMPLES_PER_SIDE = 2  # samples along a pixel's side
MERGE_COSINE = np.float32(0.95)  # 18 degrees
MERGE_UV = np.float32(1 / 64)  # less than a field of a palette
MERGE_DEPTH = 1 << (DEPTH_BITS - 6)  # as far apart as neighbouring samples of a steep face


@dataclass(frozen=True, eq=False)
class PixelFragments:
    """Fragments, the pixel each belongs to (over all views) and which of its samples show it."""

    fragments: Fragments
    pixel: Int64[np.ndarray, " k"]
    shown: Bool[np.ndarray, "4 k"]


def fragments_in_pixels(scene: RasterScene, keys: Int64[np.ndarray, "v s s"]) -> PixelFragments:
    """The fragments of every pixel."""
    four = corners_of(keys)
    faces = faces_of(four)
    same = (faces[0] == faces[1]) & (faces[0] == faces[2]) & (faces[0] == faces[3])
    inside, edge = np.flatnonzero(same & (faces[0] >= 0)), np.flatnonzero(~same)
    leading = np.take(faces, edge, axis=1)
    if not scene.model.colored:
        leading = _merge_similar(scene.model, leading, np.take(four, edge, axis=1) >> 32)
    groups = [(inside, faces[0][inside], np.ones((4, len(inside)), bool)), *_distinct_faces(edge, leading)]
    pixel, face, shown = (np.concatenate(columns, axis=-1) for columns in zip(*groups, strict=True))
    count = shown.sum(axis=0)
    x, y = 0.5 + (shown[1] + 1.0 * shown[3]) / count, 0.5 + (shown[2] + 1.0 * shown[3]) / count
    return PixelFragments(_fragments_at(pixel, face, x, y, keys.shape), pixel, shown)


def corners_of(samples: Shaped[np.ndarray, "v s s"]) -> Shaped[np.ndarray, "4 p"]:
    """The samples of each pixel, one row for each of its corners."""
    return np.stack([samples[:, row::2, column::2].ravel() for row in (0, 1) for column in (0, 1)])


def mean_of(four: Shaped[np.ndarray, "4 ..."]) -> Float32[np.ndarray, "..."]:
    """The mean over the corners of a pixel, in this order."""
    mean: Float32[np.ndarray, ...] = (four[0] + four[1] + four[2] + four[3]) * np.float32(0.25)
    return mean


def _merge_similar(
    model: MeshModel, faces: Int32[np.ndarray, "4 e"], depths: Int64[np.ndarray, "4 e"]
) -> Int32[np.ndarray, "4 e"]:
    """The faces of pixels, each that is like an earlier one replaced by it."""
    material, (x, y, z) = model.material_of[faces], (np.take(axis, faces) for axis in model.normals[:, 0].T)
    u, v = (np.take(axis, model.faces[:, 0][faces]) for axis in model.uv.T)
    leading, leads = faces.copy(), faces >= 0
    for corner in range(1, 4):
        followed = np.zeros_like(leads[0])
        for leader in range(corner - 1, -1, -1):
            bend = x[leader] * x[corner] + y[leader] * y[corner] + z[leader] * z[corner]
            alike = leads[leader] & (np.abs(bend) > MERGE_COSINE) & (faces[corner] >= 0)
            alike &= material[leader] == material[corner]
            alike &= np.abs(depths[leader] - depths[corner]) < MERGE_DEPTH
            alike &= np.abs(u[leader] - u[corner]) < MERGE_UV
            alike &= np.abs(v[leader] - v[corner]) < MERGE_UV
            leading[corner] = np.where(alike, faces[leader], leading[corner])
            followed |= alike
        leads[corner] &= ~followed
    return leading


def _distinct_faces(
    edge: Int64[np.ndarray, " e"], faces: Int32[np.ndarray, "4 e"]
) -> list[tuple[Int64[np.ndarray, " k"], Int32[np.ndarray, " k"], Bool[np.ndarray, "4 k"]]]:
    """Pixel, face and samples of the faces of some pixels, each once in a pixel, where it comes first."""
    groups = []
    for corner in range(4):
        same = faces == faces[corner]
        first = np.flatnonzero((same.argmax(axis=0) == corner) & (faces[corner] >= 0))
        groups.append((edge[first], faces[corner][first], np.take(same, first, axis=1)))
    return groups


def _fragments_at(
    pixel: Int64[np.ndarray, " k"],
    face: Int32[np.ndarray, " k"],
    x: Float64[np.ndarray, " k"],
    y: Float64[np.ndarray, " k"],
    shape: tuple[int, ...],
) -> Fragments:
    """Fragments at places within pixels, numbered over all views; `shape` is that of the samples."""
    views, rows, columns = shape[0], shape[1] // SAMPLES_PER_SIDE, shape[2] // SAMPLES_PER_SIDE
    # looked up, since whole numbers divide slowly
    view = np.repeat(np.arange(views), rows * columns)
    row = np.tile(np.repeat(np.arange(0.0, rows * SAMPLES_PER_SIDE, SAMPLES_PER_SIDE), columns), views)
    column = np.tile(np.arange(0.0, columns * SAMPLES_PER_SIDE, SAMPLES_PER_SIDE), views * rows)
    return Fragments(np.take(view, pixel), face, x + np.take(column, pixel), y + np.take(row, pixel))
