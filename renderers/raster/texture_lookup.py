"""Texture look-up: bilinear inside the nearest mip level.

Legend: k look-ups · c channels.
"""

import numpy as np
from jaxtyping import Float32, Int64

from renderers.contracts import Texture, TextureWrap


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
    left, right, across = _neighbours(uv[0], width, texture.wrap[0])
    top, bottom, down = _neighbours(uv[1], height, texture.wrap[1])
    if texture.magnify == "nearest":
        across, down = (np.where(fineness < 0, np.rint(share), share) for share in (across, down))
    start, channels = np.take(texture.starts, level), texture.texels.shape[1]
    top, bottom = start + top * width, start + bottom * width
    # rows of texels are gathered whole and mixed flat: several times faster than by [k, c] and [k, 1]
    across, down = np.repeat(across, channels), np.repeat(down, channels)
    above = _between(texture, top + left, top + right, across)
    below = _between(texture, bottom + left, bottom + right, across)
    mixed = above + (below - above) * down
    return np.ascontiguousarray(mixed.reshape(-1, channels).T)


def _between(
    texture: Texture,
    before: Int64[np.ndarray, " k"],
    after: Int64[np.ndarray, " k"],
    share: Float32[np.ndarray, " kc"],
) -> Float32[np.ndarray, " kc"]:
    """Texels mixed in a row, all channels of one look-up beside each other."""
    first = np.take(texture.texels, before, axis=0).reshape(-1)
    second = np.take(texture.texels, after, axis=0).reshape(-1)
    mixed: Float32[np.ndarray, " kc"] = first + (second - first) * share
    return mixed


def log_side(texture: Texture) -> float:
    """log2 of the picture's mean side, in texels."""
    return float(0.5 * np.log2(float(texture.sizes[0].prod())))


def log_zoom(transform: Float32[np.ndarray, "2 3"]) -> float:
    """log2 of how much a transform stretches lengths."""
    area = abs(float(transform[0, 0] * transform[1, 1] - transform[0, 1] * transform[1, 0]))
    return float(0.5 * np.log2(max(area, 1e-12)))


def _neighbours(
    position: Float32[np.ndarray, " k"], length: Int64[np.ndarray, " k"], wrap: TextureWrap
) -> tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " k"], Float32[np.ndarray, " k"]]:
    """The texels before and after a position, and how far it lies between them."""
    place = _wrapped(position, wrap) * length.astype(np.float32) - np.float32(0.5)
    floor = np.floor(place)
    before = floor.astype(np.int64)
    after = before + 1
    if wrap == "repeat":
        return np.where(before < 0, length - 1, before), np.where(after >= length, 0, after), place - floor
    return np.maximum(before, 0), np.minimum(after, length - 1), place - floor


def _wrapped(position: Float32[np.ndarray, " k"], wrap: TextureWrap) -> Float32[np.ndarray, " k"]:
    """The position within one picture, in [0, 1)."""
    if wrap == "clamp":
        inside = np.clip(position, 0, 1)
    elif wrap == "mirror":
        inside = np.abs(position - 2 * np.rint(position / 2))
    else:
        inside = position - np.floor(position)
    below_one: Float32[np.ndarray, " k"] = np.minimum(inside, np.float32(1 - 1e-7))
    return below_one
