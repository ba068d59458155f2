"""Pictures to pixels: the same preprocessing for training and serving.

Bytes become an upright RGB picture (`decode`), the picture a square of uint8 pixels (`pixels`).
Normalisation, (x / 255 - mean) / std, lives inside the image graph; `normalise` is its reference.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

import numpy as np
from jaxtyping import Float32
from PIL import ExifTags, Image, UnidentifiedImageError

from multifold.errors import MultifoldError
from multifold.types import Pixels

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "HEIF")
SUFFIXES = {"JPEG": ".jpg", "TIFF": ".tif"}  # the others are called as their formats are
MIN_SIDE = 8
LONGEST_RATIO = 32  # squares in a row; of longer strips only the middle is resized

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class ImageError(MultifoldError):
    """A picture that cannot be used; says why."""


@dataclass(frozen=True)
class ImageSpec:
    """The square of pixels that an encoder takes, and how a picture is brought to it."""

    size: int
    resize: Literal["shortest", "squash"] = "shortest"
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD

    def __post_init__(self) -> None:
        """Refuse impossible values: a bundle may come from anywhere."""
        if self.size < 1 or self.resize not in ("shortest", "squash"):
            raise ImageError(f"no such way to see: size {self.size}, resize {self.resize!r}")
        if self.interpolation not in ("bicubic", "bilinear"):
            raise ImageError(f"interpolation is 'bicubic' or 'bilinear', not {self.interpolation!r}")
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ImageError("mean and std are three numbers each, one a colour, and std is above zero")


def decode(data: bytes, max_pixels: int = 64_000_000) -> Image.Image:
    """The picture in a file: RGB, upright, on white where it is transparent; the first frame if it moves."""
    try:
        image: Image.Image = Image.open(io.BytesIO(data), formats=_readable_formats())
        _check_size(image, max_pixels)
        image.load()
        flat, orientation = flatten(image), _orientation(image)
        return flat.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else flat
    except ImageError:
        raise
    except UnidentifiedImageError:
        raise ImageError(
            f"this is not a picture we can read; send one of: {', '.join(_readable_formats())}"
        ) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ImageError(f"the picture has more than {max_pixels:,} pixels; send a smaller one") from None
    except Exception as error:  # decoders meet hostile bytes with errors of any type
        raise ImageError(f"the picture is damaged or cut short ({error}); send it again") from error


def suffix_of(data: bytes) -> str:
    """The suffix of a picture that `decode` has read, such as '.png'."""
    with Image.open(io.BytesIO(data), formats=_readable_formats()) as image:
        form = image.format or ""
    return SUFFIXES.get(form, f".{form.lower()}")


def flatten(image: Image.Image) -> Image.Image:
    """Any kind of picture as 8-bit RGB, on white where it is transparent."""
    if image.mode == "RGB" and not image.has_transparency_data:
        return image
    if image.mode == "F":
        raise ImageError("floating-point pixels have no agreed range; save the picture with 8 or 16 bits")
    if image.mode.startswith("I"):
        return _from_16_bits(image).convert("RGB")
    if image.has_transparency_data:
        picture, white = image.convert("RGBA"), Image.new("RGB", image.size, "white")
        white.paste(picture, mask=picture)
        return white
    return image.convert("RGB")


def pixels(image: Image.Image, spec: ImageSpec) -> Pixels:
    """The square an encoder takes: the middle of the picture, or all of it squashed."""
    resampling = Image.Resampling[spec.interpolation.upper()]
    if spec.resize == "squash":
        return np.array(flatten(image).resize((spec.size, spec.size), resampling))
    image, side = _trim(flatten(image)), spec.size
    width, height = (side * length // min(image.size) for length in image.size)
    left, top = round((width - side) / 2), round((height - side) / 2)
    middle = image.resize((width, height), resampling).crop((left, top, left + side, top + side))
    return np.array(middle)


def normalise(square: Pixels, spec: ImageSpec) -> Float32[np.ndarray, "3 h w"]:
    """What the image graph computes from its pixels, channels first."""
    mean, std = np.array(spec.mean, np.float32), np.array(spec.std, np.float32)
    scaled = (square.astype(np.float32) / np.float32(255) - mean) / std
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


def reads_heif() -> bool:
    """Whether the extra `heif` is installed."""
    return find_spec("pi_heif") is not None


@cache
def _readable_formats() -> tuple[str, ...]:
    """The formats that this Pillow knows (AVIF came late), and HEIF if its decoder is installed."""
    Image.init()
    if reads_heif():
        register_heif_opener: Callable[[], None] = import_module("pi_heif").register_heif_opener
        register_heif_opener()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _check_size(image: Image.Image, max_pixels: int) -> None:
    width, height = image.size
    if width * height > max_pixels:
        raise ImageError(
            f"the picture has {width} x {height} pixels, more than {max_pixels:,}; send a smaller one"
        )
    if min(width, height) < MIN_SIDE:
        raise ImageError(
            f"the picture has {width} x {height} pixels, smaller than {MIN_SIDE} x {MIN_SIDE}; "
            "send one with something to see"
        )


def _orientation(image: Image.Image) -> int | None:
    """How the camera was held; a picture with broken EXIF data is taken as it is."""
    try:
        held = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # noqa: BLE001 (EXIF is a format inside the format, and as often broken)
        return None
    return held if isinstance(held, int) else None


def _from_16_bits(image: Image.Image) -> Image.Image:
    """Grey with 16 bits, scaled so that white stays white (a plain conversion would clip)."""
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise ImageError(
            "grey values outside 16 bits have no agreed range; save the picture with 8 or 16 bits"
        )
    grey = ((values * 255 + 32767) // 65535).astype(np.uint8)
    see_through = image.info.get("transparency")
    if isinstance(see_through, int):
        grey[values == see_through] = 255
    return Image.fromarray(grey)


def _trim(image: Image.Image) -> Image.Image:
    """A long strip loses its ends, which the cut drops anyway: resized whole, it could fill the memory."""
    reach = LONGEST_RATIO * min(image.size)
    left, top = (max(0, (length - reach) // 2) for length in image.size)
    return image.crop((left, top, image.width - left, image.height - top)) if left or top else image
