"""A face in a view: the samples that it covers, a row at a time, and what is there.

Screen space: x to the right and y down, in samples; sample (column, row) sits at (column + 1/2, row + 1/2).
A face covers the samples between its two edges on each row, ends half-open, so faces that share an edge
neither overlap nor gap.

Depth is 1/distance along the view axis, which is affine on the screen, as a whole number of `DEPTH_BITS`.
The *key* of a sample is depth << 32 | face + 1: the greatest key is the nearest face, an empty sample is 0,
and ties go to the later face. Whole numbers make the result the same in any order.

What is the same all over a face is kept in one of the scene's slots, until another face needs that slot.
"""

from typing import TypeAlias

import numpy as np

from renderers.raster.compiling import Single, choose, inline_kernel, kernel
from renderers.raster.light import Vector, cross, dot, load_vector, scale_by, subtract
from renderers.raster.scene import SLOT_VALUES, SLOTS, ScenePointers

DEPTH_BITS = 30
FACE_MASK = (1 << 32) - 1
F = np.float32
CORNER_WIDTH = 14  # values of a corner: position, normal, uv, colour, second uv
POINT, NORMAL_AT, UV, COLOR, UV1 = 0, 3, 6, 8, 12
FLAT, DENSITY = 42, 45  # then the flat normal that faces us, and the density by each uv
_ONE = F(1)
Span: TypeAlias = tuple[int, int, Single, Single]  # first column, count, key there, its step
_SURELY = 1e-6  # samples; more than any rounding


@inline_kernel
def first_sample(position: float, side: int) -> int:
    """The first row or column whose sample lies at or after a position, cut to the picture."""
    return int(min(max(np.ceil(position - 0.5), 0.0), np.float64(side)))


@inline_kernel
def set_edges(scene: ScenePointers, face: int) -> tuple[int, int]:
    """Fill in a face's upper, lower and long edge; gives its first row and the one after its last.

    An edge: x, y and depth of its upper end, and how x and depth change from row to row.
    """
    screen, side = scene.screen, scene.side
    a, b, c = 3 * scene.faces[3 * face], 3 * scene.faces[3 * face + 1], 3 * scene.faces[3 * face + 2]
    if screen[a + 1] > screen[b + 1]:
        a, b = b, a
    if screen[b + 1] > screen[c + 1]:
        b, c = c, b
    if screen[a + 1] > screen[b + 1]:
        a, b = b, a
    first, last = first_sample(screen[a + 1], side), first_sample(screen[c + 1], side)
    left, right = min(screen[a], screen[b], screen[c]), max(screen[a], screen[b], screen[c])
    if first >= last or first_sample(left - _SURELY, side) >= first_sample(right + _SURELY, side):
        return 0, 0
    _set_edge(scene, 0, a, b)
    _set_edge(scene, 5, b, c)
    _set_edge(scene, 10, a, c)
    return first, last


@inline_kernel
def _set_edge(scene: ScenePointers, at: int, upper: int, lower: int) -> None:
    screen, edges = scene.screen, scene.edges
    fall = screen[lower + 1] - screen[upper + 1]
    fall = fall if fall > 1e-12 else 1.0
    for axis in range(3):
        edges[at + axis] = screen[upper + axis]
    edges[at + 3] = (screen[lower] - screen[upper]) / fall
    edges[at + 4] = (screen[lower + 2] - screen[upper + 2]) / fall


@inline_kernel
def _on_edge(scene: ScenePointers, at: int, y: float) -> tuple[float, float]:
    below = y - scene.edges[at + 1]
    return (
        scene.edges[at] + below * scene.edges[at + 3],
        scene.edges[at + 2] + below * scene.edges[at + 4],
    )


@inline_kernel
def span(scene: ScenePointers, row: int, face: int) -> Span:
    """The samples of a row that the face covers."""
    y = row + 0.5
    left_x, left_depth = _on_edge(scene, 5 if y >= scene.edges[6] else 0, y)
    right_x, right_depth = _on_edge(scene, 10, y)
    if not right_x > left_x:
        left_x, right_x, left_depth, right_depth = right_x, left_x, right_depth, left_depth
    begin, end = first_sample(left_x, scene.side), first_sample(right_x, scene.side)
    if end <= begin:
        return 0, 0, 0, 0
    width, rise = right_x - left_x, (right_depth - left_depth) * scene.depth_scale
    depth = (left_depth - scene.far) * scene.depth_scale + (begin + 0.5 - left_x) / width * rise
    # a single sample may lie in a span of no width to speak of
    step = choose(end - begin > 1, rise / width, 0.0)
    key = np.int64(np.rint(depth)) << 32 | (face + 1)
    return begin, end - begin, key, np.int64(np.rint(step)) << 32


@inline_kernel
def slot_of(scene: ScenePointers, face: int) -> int:
    """Where what is the same all over this face is kept; it is worked out unless it is there already."""
    slot = face & (SLOTS - 1)
    if scene.held[slot] != face:
        scene.held[slot] = face
        _set_values(scene, face, slot * SLOT_VALUES)
        _set_flat(scene, slot * SLOT_VALUES, max(abs(_set_planes(scene, face, 9 * slot)), 1e-6) / 4)
    return slot


@kernel
def _set_values(scene: ScenePointers, face: int, at: int) -> None:
    values = scene.values
    for corner in range(3):
        vertex = scene.faces[3 * face + corner]
        first = at + corner * CORNER_WIDTH
        for axis in range(3):
            values[first + POINT + axis] = scene.vertices[3 * vertex + axis]
            values[first + NORMAL_AT + axis] = scene.normals[9 * face + 3 * corner + axis]
        for axis in range(2):
            values[first + UV + axis] = scene.uv[2 * vertex + axis]
            values[first + UV1 + axis] = scene.uv1[2 * vertex + axis]
        for channel in range(4):
            values[first + COLOR + channel] = scene.colors[4 * vertex + channel]


@kernel
def _set_planes(scene: ScenePointers, face: int, at: int) -> float:
    """The corners' weights as planes over the screen; gives twice the face's area there."""
    screen, planes = scene.screen, scene.planes
    a, b, c = 3 * scene.faces[3 * face], 3 * scene.faces[3 * face + 1], 3 * scene.faces[3 * face + 2]
    area: float = (screen[b] - screen[a]) * (screen[c + 1] - screen[a + 1])
    area -= (screen[b + 1] - screen[a + 1]) * (screen[c] - screen[a])
    turn = np.sign(area)
    for plane in range(at, at + 9, 3):
        weight = turn * screen[a + 2]
        planes[plane] = (screen[b + 1] - screen[c + 1]) * weight
        planes[plane + 1] = (screen[c] - screen[b]) * weight
        planes[plane + 2] = (screen[b] * screen[c + 1] - screen[b + 1] * screen[c]) * weight
        a, b, c = b, c, a
    return area


@kernel
def _set_flat(scene: ScenePointers, at: int, area: float) -> None:
    """The flat normal that faces us, and log2 of the length in texture coordinates that a pixel covers."""
    values = scene.values
    here = load_vector(scene.values, at)
    first = subtract(load_vector(values, at + CORNER_WIDTH), here)
    flat = cross(first, subtract(load_vector(values, at + 2 * CORNER_WIDTH), here))
    if dot(flat, subtract(load_vector(scene.lights, 0), here)) < 0:
        flat = scale_by(flat, -_ONE)
    values[at + FLAT], values[at + FLAT + 1], values[at + FLAT + 2] = flat
    for uv_set in range(scene.uv_sets):
        a = at + (UV1 if uv_set else UV)
        b, c = a + CORNER_WIDTH, a + 2 * CORNER_WIDTH
        painted = (values[b] - values[a]) * (values[c + 1] - values[a + 1])
        painted -= (values[b + 1] - values[a + 1]) * (values[c] - values[a])
        density = 0.5 * np.log2(np.float64(max(abs(painted), F(1e-12))) / area)
        values[at + DENSITY + uv_set] = F(density)


@inline_kernel
def weights_at(scene: ScenePointers, slot: int, x: float, y: float) -> Vector:
    """How much each corner counts at a place, right in perspective."""
    planes = scene.planes
    at = 9 * slot
    a = max(planes[at] * x + planes[at + 1] * y + planes[at + 2], 0.0) + 1e-30
    b = max(planes[at + 3] * x + planes[at + 4] * y + planes[at + 5], 0.0) + 1e-30
    c = max(planes[at + 6] * x + planes[at + 7] * y + planes[at + 8], 0.0) + 1e-30
    whole = a + b + c
    return F(a / whole), F(b / whole), F(c / whole)


@inline_kernel
def interpolate(scene: ScenePointers, slot: int, value: int, weights: Vector) -> Single:
    """One of the interpolated values."""
    values = scene.values
    at = slot * SLOT_VALUES + value
    return (
        values[at] * weights[0]
        + values[at + CORNER_WIDTH] * weights[1]
        + values[at + 2 * CORNER_WIDTH] * weights[2]
    )


@inline_kernel
def interpolate_vector(scene: ScenePointers, slot: int, first: int, weights: Vector) -> Vector:
    """Three of the interpolated values."""
    return (
        interpolate(scene, slot, first, weights),
        interpolate(scene, slot, first + 1, weights),
        interpolate(scene, slot, first + 2, weights),
    )
