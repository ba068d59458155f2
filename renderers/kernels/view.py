"""A whole view: screen -> samples -> shaded fragments -> pixels, with no list of fragments kept."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from renderers.kernels.compiling import Single, entry, fingerprint, kernel, longs
from renderers.kernels.layers import Layers, count_layers, fill_layers, layers_at, look_through
from renderers.kernels.packed import CUT, CUTOFF, MATERIAL_WIDTH, SOLID, Looks, Scratch, Shape
from renderers.kernels.scene import Pointer, Scene, scene_at
from renderers.kernels.spans import set_edges, span
from renderers.kernels.surface import color_at, shade, slot_of, weights_at
from renderers.raster import DEPTH_BITS, FACE_MASK, MOST_FRAGMENTS_PER_VIEW

Addresses: TypeAlias = tuple[int, ...]
Numbers: TypeAlias = tuple[int, int, int, bool, float, float]  # faces, side, uv sets, colored, near, far
See: TypeAlias = Callable[[Addresses, Numbers, int], tuple[int, int]]
Paint: TypeAlias = Callable[[Addresses, Numbers, Addresses, bool], None]
Four: TypeAlias = tuple[int, int, int, int]  # the face + 1 at each sample of a pixel, row by row
Light: TypeAlias = tuple[float, float, float]
TOO_MANY_LARGE = -1
_ZERO, _QUARTER = np.float32(0), np.float32(0.25)
_ARRAYS = len(Shape._fields + Looks._fields + Scratch._fields)
_SCENE = f"UniTuple(int64, {_ARRAYS}), Tuple((int64, int64, int64, boolean, float64, float64))"
_STEPS = float(1 << DEPTH_BITS)


def entries() -> tuple[See, Paint]:
    """Two compiled steps: `see` finds what is nearest at each sample, `paint` shades it."""
    version = fingerprint()  # entries close over it, which makes it part of the key of their machine code

    @entry(f"UniTuple(int64, 2)({_SCENE}, int64)")
    def see(at: Addresses, numbers: Numbers, starts: int) -> tuple[int, int]:
        """How many see-through fragments there are, in all and in one pixel, counted at `starts` if not 0."""
        count, side, uv_sets, colored, near, far = numbers
        scene = scene_at(at, count, side, uv_sets, colored, near, far, _STEPS)
        if version < 0 or not (_draw_solid(scene) and _draw_cut_outs(scene)):
            return TOO_MANY_LARGE, 0
        return count_layers(scene, longs(starts)) if starts else (0, 0)

    @entry(f"void({_SCENE}, UniTuple(int64, {len(Layers._fields)}), boolean)")
    def paint(at: Addresses, numbers: Numbers, glass: Addresses, with_glass: bool) -> None:
        """Fill in the light of every pixel, the share of the background, and what glass adds."""
        count, side, uv_sets, colored, near, far = numbers
        scene = scene_at(at, count, side, uv_sets, colored, near, far, _STEPS)
        if version >= 0:
            _paint(scene, layers_at(glass), with_glass)

    return see, paint


@kernel
def _draw_solid(scene: Scene) -> bool:
    """Let the solid faces compete for the samples; False if that takes too long."""
    keys, fragments = scene.keys, 0
    for sample in range(scene.side * scene.side):
        keys[sample] = 0
    for face in range(scene.face_count):
        if scene.opacity_of[scene.material_of[face]] != SOLID:
            continue
        first, last = set_edges(scene, face)
        for row in range(first, last):
            begin, count, key, step = span(scene, row, face)
            fragments += count
            for sample in range(row * scene.side + begin, row * scene.side + begin + count):
                keys[sample] = max(keys[sample], key)
                key += step
        if fragments > MOST_FRAGMENTS_PER_VIEW:
            return False
    return True


@kernel
def _draw_cut_outs(scene: Scene) -> bool:
    """Let faces with holes compete; holes leave no trace."""
    fragments = 0
    for face in range(scene.face_count):
        if scene.opacity_of[scene.material_of[face]] != CUT:
            continue
        first, last = set_edges(scene, face)
        for row in range(first, last):
            begin, count, key, step = span(scene, row, face)
            fragments += count
            for column in range(begin, begin + count):
                if key > scene.keys[row * scene.side + column] and _is_there(scene, face, column, row):
                    scene.keys[row * scene.side + column] = key
                key += step
        if fragments > MOST_FRAGMENTS_PER_VIEW:
            return False
    return True


@kernel
def _is_there(scene: Scene, face: int, column: int, row: int) -> bool:
    """Whether the face has no hole at this sample."""
    slot = slot_of(scene, face)
    alpha = color_at(scene, slot, weights_at(scene, slot, column + 0.5, row + 0.5))[3]
    return bool(alpha >= scene.materials[scene.material_of[face] * MATERIAL_WIDTH + CUTOFF])


@kernel
def _paint(scene: Scene, layers: Layers, glass: bool) -> None:
    """Shade each face once in a pixel, in the middle of the samples it has there, and add up."""
    pixel = 0
    if glass:
        fill_layers(scene, layers)
    for row in range(0, scene.side, 2):
        for column in range(0, scene.side, 2):
            if glass:
                look_through(scene, layers, row, column)
                for channel in range(3):
                    layers.veil[3 * pixel + channel] = _mean(layers.glass, 4 + channel, 3)
            _paint_pixel(scene, layers.glass, row, column, pixel)
            pixel += 1


@kernel
def _mean(values: Pointer, first: int, stride: int) -> Single:
    """Of four values."""
    whole = values[first] + values[first + stride] + values[first + 2 * stride] + values[first + 3 * stride]
    return whole * _QUARTER


@kernel
def _paint_pixel(scene: Scene, through: Pointer, row: int, column: int, pixel: int) -> None:
    sample = row * scene.side + column
    a, b = scene.keys[sample] & FACE_MASK, scene.keys[sample + 1] & FACE_MASK
    c, d = scene.keys[sample + scene.side] & FACE_MASK, scene.keys[sample + scene.side + 1] & FACE_MASK
    if a == b and a == c and a == d:
        weight, light = _mean(through, 0, 1), (0.0, 0.0, 0.0)
        if a > 0:
            light = _added(scene, light, a - 1, weight, column + 1.0, row + 1.0)
        scene.rest[pixel] = weight if a == 0 else _ZERO
    else:
        light = _edge_pixel(scene, through, (a, b, c, d), row, column)
        scene.rest[pixel] = _weight(through, (a, b, c, d), 0)
    for channel in range(3):
        scene.seen[3 * pixel + channel] = np.float32(light[channel])


@kernel
def _edge_pixel(scene: Scene, through: Pointer, four: Four, row: int, column: int) -> Light:
    """The light of a pixel that holds several faces."""
    light = (0.0, 0.0, 0.0)
    for corner in range(4):
        face, earlier = four[corner], False
        for other in range(corner):
            earlier = earlier or four[other] == face
        if face > 0 and not earlier:
            count = (four[0] == face) + (four[1] == face) + (four[2] == face) + (four[3] == face)
            x = 0.5 + (four[1] == face or four[3] == face) / count
            y = 0.5 + (four[2] == face or four[3] == face) / count
            light = _added(scene, light, face - 1, _weight(through, four, face), x + column, y + row)
    return light


@kernel
def _weight(through: Pointer, four: Four, face: int) -> Single:
    """The share of a face in a pixel, in what its samples let through."""
    weight = _ZERO
    for corner in range(4):
        weight += through[corner] if four[corner] == face else _ZERO
    return weight * _QUARTER


@kernel
def _added(scene: Scene, light: Light, face: int, weight: Single, x: float, y: float) -> Light:
    """The light with that of one more face."""
    red, green, blue, _ = shade(scene, slot_of(scene, face), x, y)
    return light[0] + red * weight, light[1] + green * weight, light[2] + blue * weight
