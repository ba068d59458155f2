"""KTX2 pictures with Basis Universal texels; their sizes are checked before they are decoded."""

import struct

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from multifold.errors import needs_extra
from renderers.limits import Limits
from renderers.textures import PictureError, shrink

MAGIC = b"\xabKTX 20\xbb\r\n\x1a\n"
_HEADER, _LEVEL = struct.Struct("<12s9I"), struct.Struct("<3Q")
_LEVELS_AT = 80  # after the header and the places of the descriptions
_MOST_LEVELS = 32


def decode(data: bytes, limits: Limits) -> UInt8[np.ndarray, "h w 4"]:
    """The RGBA bytes of the largest level that is not above the largest texture side, or shrunk to it."""
    levels = _check_sizes(data, limits)
    with needs_extra("ktx2"):
        import opengl_basisu
    try:
        texture = opengl_basisu.open(data)
        wanted = (one for one in range(levels) if max(texture.level_size(one)) <= limits.texture_side)
        pixels = texture.transcode("rgba8", next(wanted, levels - 1)).data
    except (ValueError, IndexError, RuntimeError) as error:
        raise PictureError(f"its KTX2 picture is damaged: {error!s:.100}") from error
    return shrink(Image.fromarray(np.asarray(pixels, np.uint8)), limits.texture_side)


def _check_sizes(data: bytes, limits: Limits) -> int:
    """The number of levels, once what they declare is known to be small enough."""
    if len(data) < _LEVELS_AT + _LEVEL.size:
        raise PictureError("its KTX2 picture is cut short")
    _, _, _, width, height, _, _, _, declared, _ = _HEADER.unpack_from(data)
    levels = max(int(declared), 1)
    limits.check("pixels in one texture", width * max(height, 1), limits.image_pixels)
    if levels > _MOST_LEVELS or len(data) < _LEVELS_AT + levels * _LEVEL.size:
        raise PictureError("its KTX2 picture is cut short")
    unpacked = sum(_LEVEL.unpack_from(data, _LEVELS_AT + one * _LEVEL.size)[2] for one in range(levels))
    limits.check("bytes of unpacked data", unpacked, limits.unpacked_bytes)
    return levels
