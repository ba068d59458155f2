"""Triangles -> spans of samples: the twin of `renderers.raster.spans`, one face and one row at a time."""

from typing import TypeAlias

import numpy as np

from renderers.raster.kernels.compiling import inline_kernel
from renderers.raster.kernels.scene import ScenePointers

Span: TypeAlias = tuple[int, int, int, int]  # first column, count, key there, its step
_SURELY = 1e-6  # samples; more than any rounding


@inline_kernel
def _first_sample(position: float, side: int) -> int:
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
    first, last = _first_sample(screen[a + 1], side), _first_sample(screen[c + 1], side)
    left, right = min(screen[a], screen[b], screen[c]), max(screen[a], screen[b], screen[c])
    if first >= last or _first_sample(left - _SURELY, side) >= _first_sample(right + _SURELY, side):
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
    begin, end = _first_sample(left_x, scene.side), _first_sample(right_x, scene.side)
    if end <= begin:
        return 0, 0, 0, 0
    width, rise = right_x - left_x, (right_depth - left_depth) * scene.depth_scale
    depth = (left_depth - scene.far) * scene.depth_scale + (begin + 0.5 - left_x) / width * rise
    step = int(np.rint(rise / width)) << 32 if end - begin > 1 else 0
    return begin, end - begin, (int(np.rint(depth)) << 32) | (face + 1), step
