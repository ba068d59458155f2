"""Samples -> what to shade in each pixel.

A pixel is 2 by 2 samples. A face is shaded once in a pixel, in the middle of the samples it has there, and
weighs as much as they let through: all of it behind nothing, less behind glass.

Shape legend: v views · s samples along a side · p pixels of all views · k fragments · e pixels at edges.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int32, Int64, Shaped

from renderers.raster import faces_of
from renderers.scene import Fragments

PIXEL = 2  # samples along a pixel's side
Share: TypeAlias = tuple[  # pixel, face, x and y in the pixel, weight
    Int64[np.ndarray, " k"],
    Int32[np.ndarray, " k"],
    Float64[np.ndarray, " k"],
    Float64[np.ndarray, " k"],
    Float32[np.ndarray, " k"],
]


@dataclass(frozen=True, eq=False)
class Seen:
    """Fragments, the pixel each belongs to (over all views) and how much it weighs there."""

    fragments: Fragments
    pixel: Int64[np.ndarray, " k"]
    weight: Float32[np.ndarray, " k"]


def resolve(
    keys: Int64[np.ndarray, "v s s"], through: Float32[np.ndarray, "v s s"] | None = None
) -> tuple[Seen, Float32[np.ndarray, " p"]]:
    """The fragments of every pixel, and the share of the background in each."""
    faces = faces_of(_four(keys))
    light = np.ones_like(faces, np.float32) if through is None else _four(through)
    same = (faces[0] == faces[1]) & (faces[0] == faces[2]) & (faces[0] == faces[3])
    inside, edge = np.flatnonzero(same & (faces[0] >= 0)), np.flatnonzero(~same)
    middle = np.ones(len(inside))
    whole = (inside, faces[0][inside], middle, middle, np.take(light, inside, axis=1).mean(axis=0))
    shares = [whole, *_shares(edge, np.take(faces, edge, axis=1), np.take(light, edge, axis=1))]
    pixel, face, x, y, weight = (np.concatenate(columns) for columns in zip(*shares, strict=True))
    background = ((faces < 0) * light).mean(axis=0, dtype=np.float32)
    return Seen(fragments_at(pixel, face, x, y, keys.shape), pixel, weight), background


def fragments_at(
    pixel: Int64[np.ndarray, " k"],
    face: Int32[np.ndarray, " k"],
    x: Float64[np.ndarray, " k"],
    y: Float64[np.ndarray, " k"],
    shape: tuple[int, ...],
) -> Fragments:
    """Fragments at places within pixels, numbered over all views; `shape` is that of the samples."""
    views, rows, columns = shape[0], shape[1] // PIXEL, shape[2] // PIXEL
    # looked up, since whole numbers divide slowly
    view = np.repeat(np.arange(views), rows * columns)
    row = np.tile(np.repeat(np.arange(0.0, rows * PIXEL, PIXEL), columns), views)
    column = np.tile(np.arange(0.0, columns * PIXEL, PIXEL), views * rows)
    return Fragments(np.take(view, pixel), face, x + np.take(column, pixel), y + np.take(row, pixel))


def _four(samples: Shaped[np.ndarray, "v s s"]) -> Shaped[np.ndarray, "4 p"]:
    """The samples of each pixel, one row for each of its corners."""
    return np.stack([samples[:, row::2, column::2].ravel() for row in (0, 1) for column in (0, 1)])


def _shares(
    edge: Int64[np.ndarray, " e"], faces: Int32[np.ndarray, "4 e"], light: Float32[np.ndarray, "4 e"]
) -> list[Share]:
    """The faces of pixels that hold several, each once, at the middle of its samples."""
    shares = []
    for corner in range(4):
        same = faces == faces[corner]
        first = np.flatnonzero((same.argmax(axis=0) == corner) & (faces[corner] >= 0))
        of_face = np.take(same, first, axis=1)
        count = of_face.sum(axis=0)
        x, y = 0.5 + (of_face[1] + of_face[3]) / count, 0.5 + (of_face[2] + of_face[3]) / count
        weight = (of_face * np.take(light, first, axis=1)).mean(axis=0, dtype=np.float32)
        shares.append((edge[first], faces[corner][first], x, y, weight))
    return shares
