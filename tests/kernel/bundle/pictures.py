"""Picture files of every kind that people send, made from a seed."""

from collections.abc import Callable
from functools import cache

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from tests.files import picture_file

Maker = Callable[[np.random.Generator, int, int], bytes]


def scene(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """Soft gradients, hard edges and noise: what tells one resize from another."""
    y, x = np.mgrid[0:height, 0:width]
    slopes = rng.uniform(0.5, 3.0, size=(3, 2))
    waves = [np.sin(a * x / 7 + b * y / 11) * 90 + 128 for a, b in slopes]
    picture = np.stack(waves, axis=-1) + rng.normal(0, 25, (height, width, 3))
    picture[height // 3 : height // 2, width // 4 : width // 2] = rng.integers(0, 256, 3)
    return Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))


def with_alpha(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """A scene that fades from solid to nothing."""
    image = scene(rng, width, height).convert("RGBA")
    image.putalpha(Image.linear_gradient("L").resize((width, height)))
    return image


def rotated(image: Image.Image, held: int) -> bytes:
    """A JPEG whose EXIF data says how the camera was held."""
    exif = Image.Exif()
    exif[0x0112] = held
    return picture_file(image, "JPEG", quality=95, exif=exif)


def grey16(values: UInt8[np.ndarray, "h w"]) -> bytes:
    """A 16-bit grey PNG of 8-bit values: v * 257 spans the range."""
    return picture_file(Image.fromarray(values.astype(np.uint16) * 257))


def _palette(rng: np.random.Generator, width: int, height: int) -> bytes:
    return picture_file(scene(rng, width, height).quantize(64))


def _palette_with_hole(rng: np.random.Generator, width: int, height: int) -> bytes:
    return picture_file(scene(rng, width, height).quantize(16), transparency=3)


def _palette_with_alphas(rng: np.random.Generator, width: int, height: int) -> bytes:
    return picture_file(scene(rng, width, height).quantize(16), transparency=bytes(range(0, 256, 16)))


MAKERS: dict[str, Maker] = {
    "rgb png": lambda rng, w, h: picture_file(scene(rng, w, h)),
    "rgb jpeg": lambda rng, w, h: picture_file(scene(rng, w, h), "JPEG", quality=90),
    "progressive jpeg": lambda rng, w, h: picture_file(scene(rng, w, h), "JPEG", progressive=True),
    "webp": lambda rng, w, h: picture_file(scene(rng, w, h), "WEBP"),
    "bmp": lambda rng, w, h: picture_file(scene(rng, w, h), "BMP"),
    "tiff": lambda rng, w, h: picture_file(scene(rng, w, h), "TIFF", compression="tiff_lzw"),
    "gif": lambda rng, w, h: picture_file(scene(rng, w, h).quantize(32), "GIF"),
    "grey": lambda rng, w, h: picture_file(scene(rng, w, h).convert("L")),
    "grey jpeg": lambda rng, w, h: picture_file(scene(rng, w, h).convert("L"), "JPEG"),
    "black and white": lambda rng, w, h: picture_file(scene(rng, w, h).convert("1")),
    "16-bit grey": lambda rng, w, h: grey16(np.asarray(scene(rng, w, h).convert("L"))),
    "16-bit tiff": lambda rng, w, h: picture_file(
        Image.fromarray(rng.integers(0, 65536, (h, w), dtype=np.uint16)), "TIFF"
    ),
    "alpha": lambda rng, w, h: picture_file(with_alpha(rng, w, h)),
    "grey with alpha": lambda rng, w, h: picture_file(with_alpha(rng, w, h).convert("LA")),
    "alpha webp": lambda rng, w, h: picture_file(with_alpha(rng, w, h), "WEBP", lossless=True),
    "palette": _palette,
    "palette with a hole": _palette_with_hole,
    "palette with alphas": _palette_with_alphas,
    "cmyk jpeg": lambda rng, w, h: picture_file(scene(rng, w, h).convert("CMYK"), "JPEG", quality=95),
    "cmyk tiff": lambda rng, w, h: picture_file(scene(rng, w, h).convert("CMYK"), "TIFF"),
} | {f"held {held}": lambda rng, w, h, held=held: rotated(scene(rng, w, h), held) for held in range(2, 9)}

SIZES = (
    (97, 131),
    (640, 401),
    (33, 480),
    (700, 45),
    (8, 8),
    (11, 9),
    (224, 224),
    (223, 225),
    (301, 64),
    (9, 260),
)


@cache
def fifty() -> tuple[tuple[str, bytes], ...]:
    """Fifty picture files: every kind, in sizes that are odd, tall, wide and tiny."""
    names = list(MAKERS)
    return tuple(_numbered(names[number % len(names)], number) for number in range(50))


def _numbered(name: str, number: int) -> tuple[str, bytes]:
    width, height = SIZES[number % len(SIZES)]
    return f"{name} {width}x{height}", MAKERS[name](np.random.default_rng(number), width, height)
