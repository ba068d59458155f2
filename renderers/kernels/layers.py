"""See-through faces: the twin of `renderers.glass`.

The see-through fragments that nothing solid hides lie in one list, sample after sample, in a sample the
nearest first. The list is counted, made, filled and used view by view.
"""

from typing import NamedTuple

import numpy as np

from renderers.glass import MOST_LAYERS
from renderers.kernels.compiling import floats, kernel, longs
from renderers.kernels.packed import CLEAR
from renderers.kernels.scene import Pointer, Scene
from renderers.kernels.spans import set_edges, span
from renderers.kernels.surface import shade, slot_of
from renderers.raster import FACE_MASK

_INDEX_BITS = 26  # enough for glass.MOST_FRAGMENTS
_ZERO, _ONE = np.float32(0), np.float32(1)


class Layers(NamedTuple):
    """The list, and scratch for the pixel that has most of them."""

    starts: Pointer  # longs: where each sample's fragments begin, and one more
    keys: Pointer  # longs
    order: Pointer  # longs
    colors: Pointer  # floats, four for each fragment of a pixel
    glass: Pointer  # floats: how much light each of four samples lets through; then what glass adds to each
    veil: Pointer  # floats: what glass adds to each pixel


@kernel
def layers_at(at: tuple[int, ...]) -> Layers:
    """The list that lies at these addresses."""
    return Layers(longs(at[0]), longs(at[1]), longs(at[2]), floats(at[3]), floats(at[4]), floats(at[5]))


@kernel
def count_layers(scene: Scene, starts: Pointer) -> tuple[int, int]:
    """Fill in `starts`; gives how many fragments there are, in all and in the fullest pixel."""
    samples, total, most, side = scene.side * scene.side, 0, 0, scene.side
    for sample in range(samples + 1):
        starts[sample] = 0
    _scatter(scene, starts, starts, False)
    for sample in range(samples + 1):
        starts[sample], total = total, total + starts[sample]
    for row in range(0, side, 2):
        for sample in range(row * side, row * side + side, 2):
            most = max(most, _in_pixel(starts, sample, side))
    return total, most


@kernel
def fill_layers(scene: Scene, layers: Layers) -> None:
    """Put every fragment in its place."""
    starts, samples = layers.starts, scene.side * scene.side
    _scatter(scene, starts, layers.keys, True)
    for sample in range(samples, 0, -1):  # filling moved each start to its end
        starts[sample] = starts[sample - 1]
    starts[0] = 0
    for sample in range(samples):
        _sort_falling(layers.keys, starts[sample], starts[sample + 1])


@kernel
def _scatter(scene: Scene, counts: Pointer, found: Pointer, fill: bool) -> None:
    """Count the fragments of each sample, or put them where its count stands."""
    for face in range(scene.face_count):
        if scene.opacity_of[scene.material_of[face]] != CLEAR:
            continue
        first, last = set_edges(scene, face)
        for row in range(first, last):
            begin, count, key, step = span(scene, row, face)
            for sample in range(row * scene.side + begin, row * scene.side + begin + count):
                if key > scene.keys[sample]:
                    if fill:
                        found[counts[sample]] = key
                    counts[sample] += 1
                key += step


@kernel
def _sort_falling(values: Pointer, first: int, last: int) -> None:
    """Shell's sort: quick for the few that a sample has, and never slow."""
    gap = 1
    while gap < (last - first) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for end in range(first + gap, last):
            value, place = values[end], end
            while place >= first + gap and values[place - gap] < value:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value
        gap //= 3


@kernel
def _in_pixel(starts: Pointer, sample: int, side: int) -> int:
    """How many fragments lie in the pixel with this first sample."""
    upper, lower = starts[sample + 2] - starts[sample], starts[sample + side + 2] - starts[sample + side]
    return int(upper + lower)


@kernel
def look_through(scene: Scene, layers: Layers, row: int, column: int) -> None:
    """Fill in `glass` for the pixel whose first sample this is."""
    for value in range(16):
        layers.glass[value] = _ONE if value < 4 else _ZERO
    sample = row * scene.side + column
    if _in_pixel(layers.starts, sample, scene.side) == 0:
        return
    _shade_each_face_once(scene, layers, row, column)
    nth = 0
    for corner in range(4):
        here = sample + corner // 2 * scene.side + corner % 2
        count = layers.starts[here + 1] - layers.starts[here]
        for layer in range(nth, nth + min(count, MOST_LAYERS)):
            _lay_over(layers, corner, 4 * layer)
        nth += count


@kernel
def _lay_over(layers: Layers, corner: int, color: int) -> None:
    """One more layer behind those before."""
    through, opacity = layers.glass[corner], min(max(layers.colors[color + 3], _ZERO), _ONE)
    for channel in range(3):
        layers.glass[4 + 3 * corner + channel] += layers.colors[color + channel] * through * opacity
    layers.glass[corner] = through * (_ONE - opacity)


@kernel
def _shade_each_face_once(scene: Scene, layers: Layers, row: int, column: int) -> None:
    """Colours of a pixel's fragments, in the order of its samples."""
    count, first, order = _list_by_face(layers, row * scene.side + column, scene.side), 0, layers.order
    while first < count:
        face, last, x, y = order[first] >> (_INDEX_BITS + 2), first, 0.0, 0.0
        while last < count and order[last] >> (_INDEX_BITS + 2) == face:
            corner = order[last] & 3
            x, y, last = x + (corner % 2 + 0.5), y + (corner // 2 + 0.5), last + 1
        x, y = x / (last - first) + column, y / (last - first) + row
        color = shade(scene, slot_of(scene, face), x, y)
        for one in range(first, last):
            nth = 4 * ((order[one] >> 2) & ((1 << _INDEX_BITS) - 1))
            for channel in range(4):
                layers.colors[nth + channel] = color[channel]
        first = last


@kernel
def _list_by_face(layers: Layers, sample: int, side: int) -> int:
    """Face, place among the pixel's fragments and corner as one number, sorted; gives how many there are."""
    nth = 0
    for corner in range(4):
        here = sample + corner // 2 * side + corner % 2
        for place in range(layers.starts[here], layers.starts[here + 1]):
            face = (layers.keys[place] & FACE_MASK) - 1
            layers.order[nth] = (face << (_INDEX_BITS + 2)) | (nth << 2) | corner
            nth += 1
    _sort_falling(layers.order, 0, nth)
    return nth
