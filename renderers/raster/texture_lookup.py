"""Texture look-up: bilinear inside the nearest mip level."""

from typing import TypeAlias

import numpy as np

from renderers.raster import scene as packed
from renderers.raster.compiling import Single, choose, float_pointer, inline_kernel, kernel
from renderers.raster.light import HALF, ONE, TWO, ZERO
from renderers.raster.scene import Pointer, ScenePointers

REPEAT, CLAMP = 0, 1  # places in `scene.WRAPS`
BELOW_ONE = np.float32(1 - 1e-7)
Color: TypeAlias = tuple[Single, Single, Single, Single]


@kernel
def sample_texture(scene: ScenePointers, number: int, u: Single, v: Single, density: Single) -> Color:
    """A texture's value at u, v: bilinear inside the nearest mip level; without alpha, 1."""
    maps = scene.maps
    moves = scene.moves
    first = number * packed.MAP_WIDTH
    move = number * 8
    if maps[first + packed.TRANSFORMED]:
        density = density + moves[move + 6]
        u, v = (
            moves[move] * u + moves[move + 1] * v + moves[move + 2],
            moves[move + 3] * u + moves[move + 4] * v + moves[move + 5],
        )
    fineness = density + moves[move + 7]
    level = int(min(max(np.rint(fineness), ZERO), np.float32(maps[first + packed.LEVELS] - 1)))
    entry = 3 * (number * packed.MOST_LEVELS + level)
    width, height, start = scene.levels[entry], scene.levels[entry + 1], scene.levels[entry + 2]
    left, right, across = neighbours(u, width, maps[first + packed.WRAP_U])
    top, bottom, down = neighbours(v, height, maps[first + packed.WRAP_V])
    if maps[first + packed.NEAREST] and fineness < 0:
        across, down = np.rint(across), np.rint(down)
    texels = float_pointer(maps[first])
    channels = maps[first + packed.CHANNELS]
    above, below, left, right = start + top * width, start + bottom * width, left * channels, right * channels
    a, b = above * channels + left, above * channels + right
    c, d = below * channels + left, below * channels + right
    return (
        _mixed(texels, a, b, c, d, across, down),
        _mixed(texels, a + 1, b + 1, c + 1, d + 1, across, down),
        _mixed(texels, a + 2, b + 2, c + 2, d + 2, across, down),
        _mixed(texels, a + 3, b + 3, c + 3, d + 3, across, down) if channels == 4 else ONE,
    )


@inline_kernel
def _mixed(texels: Pointer, a: int, b: int, c: int, d: int, across: Single, down: Single) -> Single:
    above = texels[a] + (texels[b] - texels[a]) * across
    below = texels[c] + (texels[d] - texels[c]) * across
    return above + (below - above) * down


@inline_kernel
def wrapped(position: Single, wrap: int) -> Single:
    """The position within one picture, in [0, 1)."""
    position = choose(np.isfinite(position), position, ZERO)
    if wrap == REPEAT:
        inside = position - np.floor(position)
    elif wrap == CLAMP:
        inside = min(max(position, ZERO), ONE)
    else:
        inside = np.abs(position - TWO * np.rint(position / TWO))
    return min(inside, BELOW_ONE)


@inline_kernel
def neighbours(position: Single, length: Single, wrap: int) -> tuple[Single, Single, Single]:
    """The texels before and after a position, and how far it lies between them."""
    place = wrapped(position, wrap) * np.float32(length) - HALF
    floor = np.floor(place)
    before = np.int64(floor)
    after = before + 1
    if wrap == REPEAT:
        return choose(before < 0, length - 1, before), choose(after >= length, 0, after), place - floor
    return max(before, 0), min(after, length - 1), place - floor
