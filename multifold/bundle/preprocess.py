"""Pictures to pixels: the same preprocessing for training and serving.

Bytes become an upright RGB picture (`decode`), the picture a square of uint8 pixels (`pixels`).
Normalisation, (x / 255 - mean) / std, lives inside the image graph; `normalise` is its reference.
"""

import io
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

import numpy as np
from jaxtyping import Float32
from PIL import Image, ImageOps, UnidentifiedImageError

from multifold.errors import MultifoldError
from multifold.types import Pixels

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "HEIF")
SUFFIXES = {"JPEG": ".jpg", "TIFF": ".tif"}  # the others are called as their formats are
MIN_SIDE = 8
LARGE_PICTURE = 16_000_000  # pixels; a larger one is shrunk to at most as many
BAND = 64  # rows of a shrunk picture that are made together
NO_RANGE = "have no agreed range; save the picture with 8 or 16 bits"
LONGEST_RATIO = 32  # squares in a row; of longer strips only the middle is resized


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
        if self.size < 1 or self.resize not in ("shortest", "squash"):
            raise ImageError(f"no such way to see: size {self.size}, resize {self.resize!r}")
        if self.interpolation not in ("bicubic", "bilinear"):
            raise ImageError(f"interpolation is 'bicubic' or 'bilinear', not {self.interpolation!r}")
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ImageError("mean and std are three numbers each, one a colour, and std is above zero")


class PixelRoom:
    """Lets threads decode at once as long as their pictures have at most so many pixels together."""

    def __init__(self, pixels: int) -> None:
        self._pixels = self._free = pixels
        self._turn = threading.Lock()
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, pixels: int) -> Iterator[None]:
        """Wait, in turn, until there is room for them; one that is larger than all the room waits for all."""
        pixels = min(pixels, self._pixels)
        with self._turn, self._changed:
            self._changed.wait_for(lambda: self._free >= pixels)
            self._free -= pixels
        try:
            yield
        finally:
            with self._changed:
                self._free += pixels
                self._changed.notify_all()


room_for = cache(PixelRoom)  # one for all threads with the same limit


def decode(data: bytes, max_pixels: int = 64_000_000) -> Image.Image:
    """The picture in a file: RGB, upright, on white where it is transparent; the first frame if it moves.

    One of more than `LARGE_PICTURE` pixels is halved, or divided further, while it is decoded where its
    format can, and else before anything is made of it. Threads wait for each other's large pictures.
    """
    if not data:
        raise ImageError("the picture is an empty file; save it again")
    try:
        image: Image.Image = Image.open(io.BytesIO(data), formats=_readable_formats())
        _check_size(image, max_pixels)
        with room_for(max_pixels).taken(image.width * image.height):
            shrink = math.ceil(math.sqrt(image.width * image.height / LARGE_PICTURE))
            if shrink > 1:
                image.draft(image.mode, (image.width // shrink, image.height // shrink))  # JPEG
                shrink = math.ceil(math.sqrt(image.width * image.height / LARGE_PICTURE))
            image.load()
            return flatten(_upright(image)) if shrink <= 1 else _upright(_flatten_small(image, shrink))
    except ImageError:
        raise
    except UnidentifiedImageError:
        formats = ", ".join(_readable_formats())
        raise ImageError(f"this is not a picture we can read; send one of: {formats}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ImageError(f"the picture has more than {max_pixels:,} pixels; send a smaller one") from None
    except Exception as error:  # decoders meet hostile bytes with errors of any type
        raise ImageError(f"the picture is damaged or cut short ({error}); send it again") from error


VIEW_QUALITY = 90  # of WebP, for views


def encode_webp(picture: Image.Image, quality: int = VIEW_QUALITY) -> bytes:
    """A picture as it is kept and sent."""
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=quality, method=2)
    return out.getvalue()


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
        raise ImageError(f"floating-point pixels {NO_RANGE}")
    if image.mode.startswith("I"):
        return _from_16_bits(image).convert("RGB")
    if image.has_transparency_data:
        picture = image.convert("RGBA")
        white = Image.new("RGB", image.size, "white")
        white.paste(picture, mask=picture)
        return white
    return image.convert("RGB")


def _flatten_small(image: Image.Image, shrink: int) -> Image.Image:
    """A flat picture, divided by a whole number; a large one band by band, which takes little memory."""
    width, height = (-(-length // shrink) for length in image.size)
    small = Image.new("RGB", (width, height))
    band = BAND * shrink
    for top in range(0, image.height, band):
        part = image.crop((0, top, image.width, min(top + band, image.height)))
        small.paste(flatten(part).reduce(shrink), (0, top // shrink))
    with suppress(Exception):  # broken EXIF data turn no picture
        small.getexif().update(image.getexif())
    return small


def pixels(image: Image.Image, spec: ImageSpec) -> Pixels:
    """The square an encoder takes: the middle of the picture, or all of it squashed."""
    resampling = Image.Resampling[spec.interpolation.upper()]
    if spec.resize == "squash":
        return np.array(flatten(image).resize((spec.size, spec.size), resampling))
    image = _trim(flatten(image))
    side = spec.size
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
    stated = f"{width} x {height} pixels"
    if width * height > max_pixels:
        raise ImageError(f"the picture has {stated}, more than {max_pixels:,}; send a smaller one")
    if min(width, height) < MIN_SIDE:
        least = f"smaller than {MIN_SIDE} x {MIN_SIDE}; send one with something to see"
        raise ImageError(f"the picture has {stated}, {least}")


def _upright(image: Image.Image) -> Image.Image:
    """Turned as the camera was held; a picture with broken EXIF data is taken as it is."""
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # noqa: BLE001 (EXIF is a format inside the format, and as often broken)
        return image


def _from_16_bits(image: Image.Image) -> Image.Image:
    """Grey with 16 bits, scaled so that white stays white (a plain conversion would clip)."""
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise ImageError(f"grey values outside 16 bits {NO_RANGE}")
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
