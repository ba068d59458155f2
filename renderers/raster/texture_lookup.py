"""Texture look-up: bilinear inside the nearest mip level.

`wrapped` and `neighbours` are compiled for single numbers by the kernels too, as in `light.py`.
"""

import numpy as np
from jaxtyping import Float32, Int64

from renderers.contracts import Texture, TextureWrap
from renderers.raster.light import HALF, ONE, TWO, ZERO, F, Number, choose, larger, smaller

WRAPS: tuple[TextureWrap, ...] = ("repeat", "clamp", "mirror")  # functions below take their places here
REPEAT, CLAMP = 0, 1
BELOW_ONE = F(1 - 1e-7)
Whole = np.int64


def sample_texture(
    texture: Texture, uv: Float32[np.ndarray, "2 k"], density: Float32[np.ndarray, " k"]
) -> Float32[np.ndarray, "c k"]:
    """The texture at `uv`; `density` is log2 of the length in texture coordinates that one pixel covers."""
    if texture.transform is not None:
        density = density + np.float32(log_zoom(texture.transform))
        uv = np.stack([row[0] * uv[0] + row[1] * uv[1] + row[2] for row in texture.transform])
    fineness = density + np.float32(log_side(texture))  # log2 of the texels along one pixel
    level = np.clip(np.rint(fineness), 0, len(texture.sizes) - 1).astype(np.int64)
    width, height = (np.take(size, level) for size in texture.sizes.T)
    left, right, across = neighbours(uv[0], width, WRAPS.index(texture.wrap[0]))
    top, bottom, down = neighbours(uv[1], height, WRAPS.index(texture.wrap[1]))
    if texture.magnify == "nearest":
        across, down = (np.where(fineness < 0, np.rint(share), share) for share in (across, down))
    start, channels = np.take(texture.starts, level), texture.texels.shape[1]
    # rows of texels are gathered whole and mixed flat: several times faster than by [k, c] and [k, 1]
    across, down = np.repeat(across, channels), np.repeat(down, channels)
    above, below = (_between(texture, start + row * width, left, right, across) for row in (top, bottom))
    return np.ascontiguousarray((above + (below - above) * down).reshape(-1, channels).T)


def _between(
    texture: Texture, row: Int64[np.ndarray, " k"], left: Number, right: Number, share: Number
) -> Float32[np.ndarray, " kc"]:
    """Texels mixed in a row, all channels of one look-up beside each other."""
    first, second = (np.take(texture.texels, row + column, axis=0).reshape(-1) for column in (left, right))
    return np.asarray(first + (second - first) * share)


def log_side(texture: Texture) -> float:
    """log2 of the picture's mean side, in texels."""
    return float(0.5 * np.log2(float(texture.sizes[0].prod())))


def log_zoom(transform: Float32[np.ndarray, "2 3"]) -> float:
    """log2 of how much a transform stretches lengths."""
    area = abs(float(transform[0, 0] * transform[1, 1] - transform[0, 1] * transform[1, 0]))
    return float(0.5 * np.log2(max(area, 1e-12)))


def wrapped(position: Number, wrap: int) -> Number:
    """The position within one picture, in [0, 1)."""
    position = choose(np.isfinite(position), position, ZERO)
    if wrap == REPEAT:
        inside = position - np.floor(position)
    elif wrap == CLAMP:
        inside = smaller(larger(position, ZERO), ONE)
    else:
        inside = np.abs(position - TWO * np.rint(position / TWO))
    return smaller(inside, BELOW_ONE)


def neighbours(position: Number, length: Number, wrap: int) -> tuple[Number, Number, Number]:
    """The texels before and after a position, and how far it lies between them."""
    place = wrapped(position, wrap) * F(length) - HALF
    floor = np.floor(place)
    before = Whole(floor)
    after = before + 1
    if wrap == REPEAT:
        return choose(before < 0, length - 1, before), choose(after >= length, 0, after), place - floor
    return larger(before, 0), smaller(after, length - 1), place - floor
