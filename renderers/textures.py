"""Encoded pictures -> mip pyramids of linear values, with their size checked before they are decoded."""

import io
import warnings

import numpy as np
from jaxtyping import Float32, UInt8
from PIL import Image

from renderers.color import to_linear
from renderers.errors import MeshError
from renderers.limits import Limits
from renderers.model import Texture

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TGA", "GIF", "TIFF")


class PictureError(ValueError):
    """A texture that cannot be decoded; the mesh can be drawn without it."""


def decode(data: bytes, limits: Limits) -> UInt8[np.ndarray, "h w 4"]:
    """A picture's RGBA bytes, shrunk to the largest texture side."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=FORMATS)
        limits.check("pixels in one texture", image.width * image.height, limits.image_pixels)
        return shrink(image, limits.texture_side)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise MeshError("a texture of the file has far too many pixels. Shrink it first.") from error
    except (OSError, ValueError, SyntaxError, IndexError, TypeError, EOFError) as error:
        raise PictureError(str(error)) from error


def shrink(image: Image.Image, side: int) -> UInt8[np.ndarray, "h w 4"]:
    """RGBA bytes of an opened picture, at most `side` wide and high."""
    largest = max(image.size)
    if largest > side:
        image.draft("RGB", (side, side))
        scale = side / max(image.size)
        image = image.convert("RGBA")
        if scale < 1:
            width, height = (max(1, round(length * scale)) for length in image.size)
            image = image.resize((width, height), Image.Resampling.BOX)
    return np.asarray(image.convert("RGBA"))


def color_texture(pixels: UInt8[np.ndarray, "h w 4"], *, alpha: bool = True) -> Float32[np.ndarray, "h w c"]:
    """sRGB colours as linear light; alpha, which is linear already, stays last."""
    if not alpha:
        return to_linear(pixels[..., :3])
    light = to_linear(pixels)
    light[..., 3] = pixels[..., 3] * np.float32(1 / 255)
    return light


def data_texture(pixels: UInt8[np.ndarray, "h w 4"]) -> Float32[np.ndarray, "h w 3"]:
    """Numbers in [0, 1] that are no colours: normals, roughness, occlusion."""
    return pixels[..., :3] * np.float32(1 / 255)


def pyramid(
    level: Float32[np.ndarray, "h w c"],
) -> Texture:
    """The mip pyramid of one picture, down to a single texel."""
    levels = [level]
    while max(levels[-1].shape[:2]) > 1:
        levels.append(_halve(levels[-1]))
    sizes = np.array([(entry.shape[1], entry.shape[0]) for entry in levels], np.int64)
    flat = np.concatenate([entry.reshape(-1, level.shape[2]) for entry in levels])
    return Texture(flat, sizes)


def _halve(level: Float32[np.ndarray, "h w c"]) -> Float32[np.ndarray, "h2 w2 c"]:
    """The mean of 2 by 2 texels; an odd last row or column is left out, a single one kept."""
    if level.shape[0] > 1:
        even = level.shape[0] // 2 * 2
        level = (level[0:even:2] + level[1:even:2]) * np.float32(0.5)
    if level.shape[1] > 1:
        even = level.shape[1] // 2 * 2
        halved = np.empty((level.shape[0], even // 2, level.shape[2]), np.float32)
        for channel in range(level.shape[2]):  # numpy is three times faster along the long axis
            np.add(level[:, 0:even:2, channel], level[:, 1:even:2, channel], out=halved[..., channel])
        level = halved * np.float32(0.5)
    return level
