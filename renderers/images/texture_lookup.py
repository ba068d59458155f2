"""The colour of a texture at places of a surface, from its largest level."""

import numpy as np
from jaxtyping import Float32, Int64

from renderers.contracts import Texture, TextureWrap

_BELOW_ONE = np.float32(1 - 1e-7)


def look_up_texture(texture: Texture, uv: Float32[np.ndarray, "2 k"]) -> Float32[np.ndarray, "c k"]:
    """The texture at `uv`, mixed of the texels around each place."""
    if texture.transform is not None:
        uv = np.stack([row[0] * uv[0] + row[1] * uv[1] + row[2] for row in texture.transform])
    width, height = (int(length) for length in texture.sizes[0])
    left, right, across = _neighbours(uv[0], width, texture.wrap[0])
    top, bottom, down = _neighbours(uv[1], height, texture.wrap[1])
    if texture.magnify == "nearest":
        across, down = np.rint(across), np.rint(down)
    above = _between(texture, top * width + left, top * width + right, across)
    below = _between(texture, bottom * width + left, bottom * width + right, across)
    return np.ascontiguousarray((above + (below - above) * down[:, None]).T)


def _between(
    texture: Texture,
    left: Int64[np.ndarray, " k"],
    right: Int64[np.ndarray, " k"],
    share: Float32[np.ndarray, " k"],
) -> Float32[np.ndarray, "k c"]:
    first, second = texture.texels[left], texture.texels[right]
    return np.asarray(first + (second - first) * share[:, None])


def _neighbours(
    position: Float32[np.ndarray, " k"], length: int, wrap: TextureWrap
) -> tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " k"], Float32[np.ndarray, " k"]]:
    """The texels before and after a position, and how far it lies between them."""
    place = _within_picture(position, wrap) * np.float32(length) - np.float32(0.5)
    floor = np.floor(place)
    before = floor.astype(np.int64)
    if wrap == "repeat":
        return before % length, (before + 1) % length, place - floor
    return np.maximum(before, 0), np.minimum(before + 1, length - 1), place - floor


def _within_picture(position: Float32[np.ndarray, " k"], wrap: TextureWrap) -> Float32[np.ndarray, " k"]:
    """The position within one picture, in [0, 1)."""
    position = np.where(np.isfinite(position), position, np.float32(0))
    if wrap == "repeat":
        inside = position - np.floor(position)
    elif wrap == "clamp":
        inside = np.clip(position, 0, 1)
    else:
        inside = np.abs(position - np.float32(2) * np.rint(position / np.float32(2)))
    return np.asarray(np.minimum(inside, _BELOW_ONE))
