"""Texture look-up: the twin of `renderers.raster.texture_lookup`."""

from typing import TypeAlias

import numpy as np

from renderers.raster.kernels import scene as packed
from renderers.raster.kernels.compiling import Single, float_pointer, inline_kernel, kernel
from renderers.raster.kernels.scene import Pointer, ScenePointers

Color: TypeAlias = tuple[Single, Single, Single, Single]
_ZERO, _HALF, _ONE, _TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
_BELOW_ONE = np.float32(1 - 1e-7)
_REPEAT, _CLAMP = 0, 1


@kernel
def sample_texture(scene: ScenePointers, number: int, u: Single, v: Single, density: Single) -> Color:
    """A texture's value at u, v: bilinear inside the nearest mip level; without alpha, 1."""
    maps, moves, first, move = scene.maps, scene.moves, number * packed.MAP_WIDTH, number * 8
    if maps[first + packed.TRANSFORMED]:
        density = density + moves[move + 6]
        u, v = (
            moves[move] * u + moves[move + 1] * v + moves[move + 2],
            moves[move + 3] * u + moves[move + 4] * v + moves[move + 5],
        )
    fineness = density + moves[move + 7]
    level = int(min(max(np.rint(fineness), _ZERO), np.float32(maps[first + packed.LEVELS] - 1)))
    entry = 3 * (number * packed.MOST_LEVELS + level)
    width, height, start = scene.levels[entry], scene.levels[entry + 1], scene.levels[entry + 2]
    left, right, across = _neighbours(u, width, maps[first + packed.WRAP_U])
    top, bottom, down = _neighbours(v, height, maps[first + packed.WRAP_V])
    if maps[first + packed.NEAREST] and fineness < 0:
        across, down = np.rint(across), np.rint(down)
    texels, channels = float_pointer(maps[first]), maps[first + packed.CHANNELS]
    above, below, left, right = start + top * width, start + bottom * width, left * channels, right * channels
    a, b = above * channels + left, above * channels + right
    c, d = below * channels + left, below * channels + right
    return (
        _mixed(texels, a, b, c, d, across, down),
        _mixed(texels, a + 1, b + 1, c + 1, d + 1, across, down),
        _mixed(texels, a + 2, b + 2, c + 2, d + 2, across, down),
        _mixed(texels, a + 3, b + 3, c + 3, d + 3, across, down) if channels == 4 else _ONE,
    )


@inline_kernel
def _mixed(texels: Pointer, a: int, b: int, c: int, d: int, across: Single, down: Single) -> Single:
    above = texels[a] + (texels[b] - texels[a]) * across
    below = texels[c] + (texels[d] - texels[c]) * across
    return above + (below - above) * down


@inline_kernel
def _neighbours(position: Single, length: int, wrap: int) -> tuple[int, int, Single]:
    inside = _wrapped(position, wrap) if np.isfinite(position) else _ZERO
    place = inside * np.float32(length) - _HALF
    floor = np.floor(place)
    before = int(floor)
    after = before + 1
    if wrap == _REPEAT:
        return (length - 1 if before < 0 else before), (0 if after >= length else after), place - floor
    return max(before, 0), min(after, length - 1), place - floor


@inline_kernel
def _wrapped(position: Single, wrap: int) -> Single:
    if wrap == _REPEAT:
        inside = position - np.floor(position)
    elif wrap == _CLAMP:
        inside = min(max(position, _ZERO), _ONE)
    else:
        inside = np.abs(position - _TWO * np.rint(position / _TWO))
    return min(inside, _BELOW_ONE)
