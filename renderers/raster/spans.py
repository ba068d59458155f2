"""Triangles -> samples: which face is nearest at each sample of each view.

Screen space: x to the right and y down, in samples; sample (column, row) sits at (column + 1/2, row + 1/2).
A face covers the samples between its two edges on each row, ends half-open, so faces that share an edge
neither overlap nor gap.

Depth is 1/distance along the view axis, which is affine on the screen, as a whole number of `DEPTH_BITS`.
The *key* of a sample is depth << 32 | face + 1: the greatest key is the nearest face, an empty sample is 0,
and ties go to the later face. Whole numbers make the result the same in any order.

`first_sample` and `keys_along` are compiled for single numbers by the kernels too, as in `light.py`.

Shape legend: v views · n vertices · f faces · s samples along a side · r rows of faces · k fragments.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int32, Int64

from renderers.contracts import MeshError
from renderers.raster.light import Number, choose, larger, smaller

DEPTH_BITS = 30
FACE_MASK = (1 << 32) - 1
MOST_FRAGMENTS_PER_VIEW = 100_000_000  # about two seconds
TOO_MANY_LARGE_FACES = "too many large faces lie behind each other. Simplify the mesh first."
_AT_ONCE = 100_000
Whole = np.int64
DepthScale: TypeAlias = tuple[float, float]
SpanEnd: TypeAlias = tuple[Float64[np.ndarray, " r"], Float64[np.ndarray, " r"]]  # x, depth


@dataclass(frozen=True, eq=False)
class FaceSpans:
    """Spans of samples that faces cover, one row each: a view's face, its first sample, count, and keys."""

    begin: Int64[np.ndarray, " r"]  # the first sample, over all views: (view · s + row) · s + column
    count: Int64[np.ndarray, " r"]
    key: Int64[np.ndarray, " r"]  # at the first sample
    step: Int64[np.ndarray, " r"]  # of the key, from sample to sample

    def __len__(self) -> int:
        return len(self.begin)


def project(
    vertices: Float32[np.ndarray, "n 3"], poses: Float64[np.ndarray, "v 4 4"], fov_degrees: float, side: int
) -> Float64[np.ndarray, "v n 3"]:
    """Screen x, y and 1/distance of each vertex in each view."""
    x, y, z = np.moveaxis(vertices - poses[:, None, :3, 3], -1, 0)
    # sum by sum rather than @, which depends on the BLAS at hand and on how many views are drawn at once
    right, up, back = (
        x * axis[:, :1] + y * axis[:, 1:2] + z * axis[:, 2:] for axis in np.moveaxis(poses[:, :3, :3], -1, 0)
    )
    inverse, zoom = -1 / back, zoom_of(fov_degrees, side)
    return np.stack([side / 2 + right * zoom * inverse, side / 2 - up * zoom * inverse, inverse], axis=-1)


def zoom_of(fov_degrees: float, side: int) -> float:
    """Samples for a unit of length at distance 1."""
    return float(side / 2 / np.tan(np.radians(fov_degrees / 2)))


def draw_nearest(keys: Int64[np.ndarray, " S"], rows: FaceSpans) -> None:
    """Let the faces of these rows compete for the samples of `keys`, in place."""
    for sample, key in span_samples(rows):
        np.maximum.at(keys, sample, key)


def spans_of_faces(
    screen: Float64[np.ndarray, "v n 3"],
    triangles: Int32[np.ndarray, "f 3"],
    faces: Int64[np.ndarray, " g"],
    side: int,
    depth_range: tuple[float, float],
) -> FaceSpans:
    """Every row of the chosen faces that covers a sample, in every view."""
    corners = screen[:, triangles[faces]].reshape(-1, 3, 3)
    by_height = np.take_along_axis(corners, np.argsort(corners[..., 1], axis=1)[..., None], axis=1)
    first = first_sample(by_height[:, 0, 1], side)
    count = first_sample(by_height[:, 2, 1], side) - first
    which = np.repeat(np.arange(len(corners)), count)
    row = np.arange(len(which)) - np.repeat(np.cumsum(count) - count - first, count)
    left, right = _ends(by_height, which, row + 0.5)
    line = (which // max(len(faces), 1)) * side + row
    return _spans(left, right, line, faces[which % max(len(faces), 1)] + 1, side, depth_range)


def span_samples(rows: FaceSpans) -> Iterator[tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " k"]]]:
    """Pieces of (sample, key) for every sample of every row."""
    ends = np.cumsum(rows.count)
    start = 0
    while start < len(rows):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _AT_ONCE, "right")))
        count = rows.count[start:stop]
        offset = ends[start:stop] - count - done
        place = np.arange(ends[stop - 1] - done)
        sample = np.repeat(rows.begin[start:stop] - offset, count)
        sample += place
        step = np.repeat(rows.step[start:stop], count)
        step *= place
        # the products may run over; they come back, since whole numbers wrap
        step += np.repeat(rows.key[start:stop] - rows.step[start:stop] * offset, count)
        yield sample, step
        start = stop


def faces_of(keys: Int64[np.ndarray, "*s"]) -> Int32[np.ndarray, "*s"]:
    """The face of each key, -1 where a sample is empty."""
    return (keys & FACE_MASK).astype(np.int32) - np.int32(1)


def first_sample(position: Number, side: int) -> Number:
    """The first row or column whose sample lies at or after a position, cut to the picture."""
    return Whole(smaller(larger(np.ceil(position - 0.5), 0.0), np.float64(side)))


def keys_along(
    left: tuple[Number, Number],
    right: tuple[Number, Number],
    begin: Number,
    count: Number,
    depths: DepthScale,
) -> tuple[Number, Number]:
    """The depth at the first sample of a span, and its step from sample to sample, as parts of a key."""
    (left_x, left_depth), (right_x, right_depth), (far, scale) = left, right, depths
    width, rise = right_x - left_x, (right_depth - left_depth) * scale
    depth = (left_depth - far) * scale + (begin + 0.5 - left_x) / width * rise
    step = choose(count > 1, rise / width, 0.0)  # a single sample may lie in a span of no width to speak of
    return Whole(np.rint(depth)) << 32, Whole(np.rint(step)) << 32


def depth_scale(depth_range: tuple[float, float]) -> DepthScale:
    """The least 1/distance, and the scale from 1/distance to whole numbers."""
    near, far = depth_range
    return far, (1 << DEPTH_BITS) / (near - far)


def _ends(
    by_height: Float64[np.ndarray, "t 3 3"], which: Int64[np.ndarray, " r"], y: Float64[np.ndarray, " r"]
) -> tuple[SpanEnd, SpanEnd]:
    """(x, depth) where a row enters and leaves its face.

    An edge is always walked from its upper corner, so that both faces beside it find the same x.
    """
    top, middle, bottom = by_height[:, 0], by_height[:, 1], by_height[:, 2]
    upper = np.concatenate([top, middle, top])
    lower = np.concatenate([middle, bottom, bottom])
    fall = lower[:, 1] - upper[:, 1]
    # edges too flat to hold a row get any number
    slopes = (lower[:, ::2] - upper[:, ::2]) / np.where(fall > 1e-12, fall, 1)[:, None]
    edges = np.concatenate([upper, slopes], axis=1).T.copy()
    lower_half = which + len(by_height) * (y >= middle[which, 1])
    short = _on_edges(edges, lower_half, y)
    long = _on_edges(edges, which + 2 * len(by_height), y)
    swap = long[0] > short[0]
    left = np.where(swap, short[0], long[0]), np.where(swap, short[1], long[1])
    right = np.where(swap, long[0], short[0]), np.where(swap, long[1], short[1])
    return left, right


def _on_edges(
    edges: Float64[np.ndarray, "5 e"], which: Int64[np.ndarray, " r"], y: Float64[np.ndarray, " r"]
) -> SpanEnd:
    start_x, start_y, start_depth, x_slope, depth_slope = edges
    below = y - start_y[which]
    return start_x[which] + below * x_slope[which], start_depth[which] + below * depth_slope[which]


def _spans(
    left: SpanEnd,
    right: SpanEnd,
    line: Int64[np.ndarray, " r"],
    low_bits: Int64[np.ndarray, " r"],
    side: int,
    depth_range: tuple[float, float],
) -> FaceSpans:
    begin, end = first_sample(left[0], side), first_sample(right[0], side)
    some = np.flatnonzero(end > begin)
    begin, count, line = begin[some], (end - begin)[some], line[some]
    if count.size and np.bincount(line // side, count).max() > MOST_FRAGMENTS_PER_VIEW:
        raise MeshError(TOO_MANY_LARGE_FACES)
    left, right = ((x[some], depth[some]) for x, depth in (left, right))
    key, step = keys_along(left, right, begin, count, depth_scale(depth_range))
    return FaceSpans(line * side + begin, count, key | low_bits[some], step)
