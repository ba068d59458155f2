"""Encoded pictures (PNG, JPEG, KTX2) as mip pyramids of linear values, their sizes checked first."""

import io
import struct
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32
from PIL import Image

from multifold.errors import needs_extra
from renderers.contracts import MeshError, MeshLimits, MissingFileError, RgbaPixels, Texture
from renderers.images.color import to_linear

PICTURE_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TGA", "GIF", "TIFF")


class TextureError(ValueError):
    """A texture that cannot be decoded; the mesh can be drawn without it."""


def decode_picture(data: bytes, limits: MeshLimits) -> RgbaPixels:
    """A picture's RGBA bytes, shrunk to the largest texture side."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=PICTURE_FORMATS)
        limits.check("pixels in one texture", image.width * image.height, limits.image_pixels)
        return shrink_picture(image, limits.texture_side)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise MeshError("a texture of the file has far too many pixels. Shrink it first.") from error
    except (OSError, ValueError, SyntaxError, IndexError, TypeError, EOFError) as error:
        raise TextureError(str(error)) from error


@dataclass
class TextureDecoder:
    """Decodes the pictures of one mesh file, each once; `notes` says which could not be used.

    Together they may have a limited number of pixels.
    """

    limits: MeshLimits
    notes: list[str] = field(default_factory=list)
    _pictures: dict[Hashable, RgbaPixels | None] = field(default_factory=dict)
    _pixels: int = 0

    def decode(
        self, key: Hashable, name: str, encoded: Callable[[], bytes], *, ktx2: bool = False
    ) -> RgbaPixels | None:
        """The RGBA bytes of a picture; None and a note if it is missing or broken."""
        if key not in self._pictures:
            try:
                data = encoded()
                decode = decode_ktx2 if ktx2 and data.startswith(KTX2_MAGIC) else decode_picture
                pixels = self._pictures[key] = decode(data, self.limits)
            except (TextureError, MissingFileError) as error:
                self._pictures[key] = None
                self.notes.append(f"drawn without the texture {name:.60}: {error}")
            else:
                self._pixels += pixels.shape[0] * pixels.shape[1]
                self.limits.check("texture pixels", self._pixels, self.limits.image_pixels)
        return self._pictures[key]

    def color_texture(self, key: Hashable, encoded: Callable[[], bytes]) -> Texture | None:
        """The same as a texture of colours, for files whose keys are paths."""
        pixels = self.decode(key, repr(key), encoded)
        return None if pixels is None else mip_pyramid(color_texture(pixels))


def shrink_picture(image: Image.Image, side: int) -> RgbaPixels:
    """RGBA bytes of an opened picture, at most `side` wide and high."""
    if max(image.size) > side:
        image.draft("RGB", (side, side))
    image, scale = image.convert("RGBA"), side / max(image.size)
    if scale < 1:
        width, height = (max(1, round(length * scale)) for length in image.size)
        image = image.resize((width, height), Image.Resampling.BOX)
    return np.asarray(image)


def color_texture(pixels: RgbaPixels, *, alpha: bool = True) -> Float32[np.ndarray, "h w c"]:
    """sRGB colours as linear light; alpha, which is linear already, stays last."""
    if not alpha:
        return to_linear(pixels[..., :3])
    light = to_linear(pixels)
    light[..., 3] = pixels[..., 3] * np.float32(1 / 255)
    return light


def data_texture(pixels: RgbaPixels) -> Float32[np.ndarray, "h w 3"]:
    """Numbers in [0, 1] that are no colours: normals, roughness, occlusion."""
    return pixels[..., :3] * np.float32(1 / 255)


def mip_pyramid(level: Float32[np.ndarray, "h w c"]) -> Texture:
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


KTX2_MAGIC = b"\xabKTX 20\xbb\r\n\x1a\n"
_HEADER, _LEVEL = struct.Struct("<12s9I"), struct.Struct("<3Q")
_LEVELS_AT = 80  # after the header and the places of the descriptions
_MOST_LEVELS = 32


def decode_ktx2(data: bytes, limits: MeshLimits) -> RgbaPixels:
    """The RGBA bytes of the largest level that is not above the largest texture side, or shrunk to it."""
    levels = _check_sizes(data, limits)
    with needs_extra("ktx2"):
        import opengl_basisu
    try:
        texture = opengl_basisu.open(data)
        wanted = (one for one in range(levels) if max(texture.level_size(one)) <= limits.texture_side)
        pixels = texture.transcode("rgba8", next(wanted, levels - 1)).data
    except (ValueError, IndexError, RuntimeError) as error:
        raise TextureError(f"its KTX2 picture is damaged: {error!s:.100}") from error
    return shrink_picture(Image.fromarray(np.asarray(pixels, np.uint8)), limits.texture_side)


def _check_sizes(data: bytes, limits: MeshLimits) -> int:
    """The number of levels, once what they declare is known to be small enough."""
    if len(data) < _LEVELS_AT + _LEVEL.size:
        raise TextureError("its KTX2 picture is cut short")
    _, _, _, width, height, _, _, _, declared, _ = _HEADER.unpack_from(data)
    levels = max(int(declared), 1)
    limits.check("pixels in one texture", width * max(height, 1), limits.image_pixels)
    if levels > _MOST_LEVELS or len(data) < _LEVELS_AT + levels * _LEVEL.size:
        raise TextureError("its KTX2 picture is cut short")
    unpacked = sum(_LEVEL.unpack_from(data, _LEVELS_AT + one * _LEVEL.size)[2] for one in range(levels))
    limits.check("bytes of unpacked data", unpacked, limits.unpacked_bytes)
    return levels
