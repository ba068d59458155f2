"""Any picture file becomes the pixels that open_clip would see, and a bad one becomes a sentence."""

import io
import json
import struct
import threading
import time
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float32
from PIL import ExifTags, Image, ImageFile

from multifold.bundle import preprocess
from multifold.bundle.preprocess import ImageError, ImageSpec, decode, flatten, normalise, pixels, suffix_of
from tests.files import picture_file
from tests.kernel.bundle import pictures

Resize = Literal["shortest", "squash"]
Interpolation = Literal["bicubic", "bilinear"]
WHITE, RED = (255, 255, 255), (255, 0, 0)


def png_header(width: int, height: int) -> bytes:
    """A PNG that promises a size and holds nothing."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    idat = b"IDAT" + zlib.compress(b"")
    return start + struct.pack(">I", len(idat) - 4) + idat + struct.pack(">I", zlib.crc32(idat))


def reference(image: Image.Image, spec: ImageSpec) -> Float32[np.ndarray, "3 h w"]:
    open_clip = pytest.importorskip("open_clip", reason="the reference comes with the extra 'train'")
    transform = open_clip.image_transform(
        spec.size, is_train=False, resize_mode=spec.resize, interpolation=spec.interpolation
    )
    seen: Float32[np.ndarray, "3 h w"] = transform(image).numpy()
    return seen


def test_what_is_transparent_becomes_white() -> None:
    half = Image.new("RGBA", (8, 8), (200, 0, 0, 0))
    half.paste((200, 0, 0, 255), (0, 0, 4, 8))
    grey = Image.new("LA", (8, 8), (60, 0))
    palette = Image.new("P", (8, 8), 1)
    palette.putpalette([0, 0, 0, 9, 9, 9])
    key = Image.new("RGB", (8, 8), (1, 2, 3))
    half_grey = Image.new("LA", (8, 8), (0, 128))
    assert decode(picture_file(half)).getpixel((7, 0)) == WHITE
    assert decode(picture_file(half)).getpixel((0, 0)) == (200, 0, 0)
    assert decode(picture_file(grey)).getpixel((3, 3)) == WHITE
    assert decode(picture_file(palette, transparency=1)).getpixel((3, 3)) == WHITE
    assert decode(picture_file(palette, transparency=b"\xff\x00")).getpixel((3, 3)) == WHITE
    assert decode(picture_file(palette, "GIF", transparency=1)).getpixel((3, 3)) == WHITE
    assert decode(picture_file(key, transparency=(1, 2, 3))).getpixel((3, 3)) == WHITE
    assert decode(picture_file(half_grey)).getpixel((3, 3)) == (127, 127, 127)
    assert flatten(palette.convert("RGB").convert("L").convert("LA")).getpixel((0, 0)) == (9, 9, 9)
    assert flatten(Image.new("PA", (8, 8))).getpixel((0, 0)) == WHITE


def test_sixteen_bits_become_eight_without_clipping() -> None:
    values = np.arange(256, dtype=np.uint8).reshape(16, 16)
    np.testing.assert_array_equal(np.asarray(decode(pictures.grey16(values)))[..., 0], values)
    levels = np.full((8, 8), 65535, np.uint16)
    levels[0, :3] = 0, 32768, 300
    grey = np.asarray(decode(picture_file(Image.fromarray(levels))))[..., 0]
    assert grey[0, :4].tolist() == [0, 128, 1, 255]
    big_endian = Image.frombytes("I;16B", (8, 8), levels.astype(">u2").tobytes())
    np.testing.assert_array_equal(np.asarray(flatten(big_endian))[..., 0], grey)
    thirty_two = Image.fromarray(levels.astype(np.int32))
    np.testing.assert_array_equal(np.asarray(flatten(thirty_two))[..., 0], grey)
    see_through = decode(picture_file(Image.fromarray(levels), transparency=32768))
    assert see_through.getpixel((1, 0)) == WHITE


def test_cmyk_keeps_its_colours() -> None:
    red = Image.new("RGB", (16, 16), RED).convert("CMYK")
    assert decode(picture_file(red, "TIFF")).getpixel((4, 4)) == RED
    np.testing.assert_allclose(np.asarray(decode(picture_file(red, "JPEG")))[4, 4], RED, atol=3)


def test_floats_and_wild_integers_are_refused() -> None:
    with pytest.raises(ImageError, match="8 or 16 bits"):
        decode(picture_file(Image.new("F", (16, 16)), "TIFF"))
    with pytest.raises(ImageError, match="8 or 16 bits"):
        decode(picture_file(Image.new("I", (16, 16), 70_000), "TIFF"))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "an empty file"),
        (b"hello, I am a text file", "not a picture we can read"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n", "not a picture we can read"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), "not a picture we can read|damaged"),
        (png_header(64, 64), "damaged or cut short"),
        (png_header(20_000, 20_000), "more than 64,000,000"),
        (png_header(9_000, 8_000), "9000 x 8000 pixels, more than"),
        (picture_file(Image.new("RGB", (1, 1))), "1 x 1 pixels, smaller than 8 x 8"),
        (picture_file(Image.new("RGB", (300, 7))), "smaller than"),
    ],
    ids=["empty", "text", "eps", "bare png", "hollow png", "bomb", "too large", "dot", "line"],
)
def test_bad_files_become_sentences(data: bytes, sentence: str) -> None:
    with pytest.raises(ImageError, match=sentence):
        decode(data)


@pytest.mark.parametrize("name", ["rgb png", "rgb jpeg", "webp", "gif", "tiff", "bmp", "alpha webp"])
def test_a_file_cut_short_is_refused(name: str) -> None:
    data = pictures.MAKERS[name](np.random.default_rng(1), 120, 90)
    for share in (0.1, 0.5, 0.9):
        with pytest.raises(ImageError):
            decode(data[: int(len(data) * share)])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(pictures.MAKERS)), st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_damage_gives_a_picture_or_a_sentence(name: str, seed: int, wounds: int) -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(pictures.MAKERS[name](np.random.default_rng(2), 40, 30))
    for place in rng.integers(0, len(data), wounds):
        data[place] = rng.integers(0, 256)
    try:
        image = decode(bytes(data), max_pixels=1_000_000)
    except ImageError:
        return
    assert image.mode == "RGB"
    assert pixels(image, ImageSpec(16)).shape == (16, 16, 3)


@pytest.mark.parametrize("size", [(8, 60_000), (60_000, 8), (16, 16 * 33)])
def test_a_long_strip_costs_no_more_than_its_middle(size: tuple[int, int]) -> None:
    image = Image.new("RGB", size, "blue")
    width, height = size
    middle = (width // 2 - 4, height // 2 - 4, width // 2 + 4, height // 2 + 4)
    image.paste((255, 0, 0), middle)
    seen = pixels(image, ImageSpec(32))
    assert seen[16, 16].tolist() == list(RED)
    assert pixels(image, ImageSpec(32, "squash")).shape == (32, 32, 3)


def test_a_spec_survives_json_refuses_nonsense_and_says_how_pixels_are_normalised() -> None:
    spec = ImageSpec(64, "squash", "bilinear", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    raw = json.loads(json.dumps(asdict(spec)))
    assert ImageSpec(**{**raw, "mean": tuple(raw["mean"]), "std": tuple(raw["std"])}) == spec
    with pytest.raises(ImageError, match="size 0"):
        ImageSpec(0)
    with pytest.raises(ImageError, match="std is above zero"):
        ImageSpec(8, std=(1.0, 0.0, 1.0))
    spec = ImageSpec(2, mean=(0.0, 0.5, 1.0), std=(1.0, 0.5, 0.25))
    seen = np.array([[[0, 255, 51]] * 2] * 2, np.uint8)
    np.testing.assert_allclose(normalise(seen, spec)[:, 0, 0], [0.0, 1.0, (0.2 - 1.0) / 0.25], rtol=1e-6)


def test_the_photos_of_phones_are_read() -> None:
    data = Path(__file__).with_name("two_colours.heic").read_bytes()
    pixels = np.asarray(decode(data)).astype(int)
    assert pixels.shape == (48, 64, 3)
    assert abs(pixels[:, 8].mean(axis=0) - (30, 60, 200)).max() < 12
    assert abs(pixels[:, 56].mean(axis=0) - (200, 30, 40)).max() < 12
    assert suffix_of(data) == ".heif"
    with pytest.raises(ImageError, match="picture"):
        decode(data[: len(data) // 2])


@pytest.mark.parametrize("resize", ["shortest", "squash"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_files_equal_open_clip_within_one_grey_level(resize: Resize, interpolation: Interpolation) -> None:
    spec = ImageSpec(96, resize, interpolation)
    one_level = (1 / 255) / np.array(spec.std, np.float32)[:, None, None]
    for name, data in pictures.fifty():
        image = decode(data)
        seen = [image]
        if name.startswith(("rgb", "bmp", "tiff", "grey ")) and "alpha" not in name:
            seen.append(Image.open(io.BytesIO(data)))  # plain files from the bytes on
        for one in seen:
            difference = np.abs(normalise(pixels(image, spec), spec) - reference(one, spec))
            assert (difference <= one_level + 1e-5).all(), name


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_a_photo_stands_upright_however_the_camera_was_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The eight ways, each made by undoing it on an upright picture with four different corners."""
    upright = np.zeros((16, 24, 3), np.uint8)
    upright[:8, :12], upright[:8, 12:], upright[8:, :12] = RED, WHITE, (0, 0, 255)
    stored: dict[int, np.ndarray] = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.swapaxes(0, 1),
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].swapaxes(0, 1),
        8: np.rot90(upright, -1),
    }
    for held, rows in stored.items():
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = held
        picture = Image.fromarray(np.ascontiguousarray(rows))
        for kind, options in (("PNG", {}), ("TIFF", {}), ("WEBP", {"lossless": True})):
            data = picture_file(picture, kind, exif=exif, **options)
            np.testing.assert_array_equal(decode(data), upright)
        with monkeypatch.context() as patched:  # one that is shrunk too
            patched.setattr(preprocess, "LARGE_PICTURE", 100)
            small = decode(picture_file(picture, exif=exif))
        np.testing.assert_array_equal(small, upright[::2, ::2])
    broken = picture_file(picture, "JPEG", exif=b"Exif\x00\x00II*\x00\xff\xff\xff\xff\x00")
    assert decode(broken).size == picture.size


@pytest.mark.parametrize(
    ("kind", "suffix"), [("GIF", ".gif"), ("WEBP", ".webp"), ("PNG", ".png"), ("TIFF", ".tif")]
)
def test_of_a_moving_picture_the_first_frame_counts(kind: str, suffix: str) -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "green", "blue")]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = picture_file(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    assert decode(data).getpixel((10, 10)) == RED
    assert suffix_of(data) == suffix


def test_the_size_is_refused_before_decoding_and_nothing_global_changes() -> None:
    def state() -> tuple[Any, ...]:
        return Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, list(warnings.filters)

    def refuse(_: int) -> None:
        with pytest.raises(ImageError, match="more than"):
            decode(png_header(14_000, 14_000))

    before = state()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(refuse, range(80)))
    assert state() == before


def gradient(width: int, height: int) -> Image.Image:
    side = max(width, height)
    ramps = [Image.linear_gradient("L").resize((side, side)).rotate(90 * turn) for turn in range(3)]
    return Image.merge("RGB", ramps).crop((0, 0, width, height))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_large_picture_is_shrunk_and_looks_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = gradient(301, 207)
    if kind == "PNG":  # with holes too
        picture.putalpha(Image.linear_gradient("L").resize(picture.size))
    data = picture_file(picture, kind)
    whole = decode(data)
    monkeypatch.setattr(preprocess, "LARGE_PICTURE", 20_000)
    monkeypatch.setattr(preprocess, "BAND", 4)
    small = decode(data)
    assert small.size == (151, 104)
    most = 1 if kind == "PNG" else 4
    assert np.abs(np.asarray(small).astype(int) - np.asarray(whole.reduce(2))).max() <= most


def test_large_pictures_are_decoded_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    now, most, lock = [0], [0], threading.Lock()
    flatten = preprocess.flatten

    def watched(image: Image.Image) -> Image.Image:
        with lock:
            now[0] += image.width * image.height
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with lock:
            now[0] -= image.width * image.height
        return flatten(image)

    monkeypatch.setattr(preprocess, "flatten", watched)
    large, small = (picture_file(gradient(side, side)) for side in (90, 30))
    with ThreadPoolExecutor(8) as threads:
        assert len(list(threads.map(lambda data: decode(data, 10_000), [large, small] * 8))) == 16
    assert 8100 <= most[0] <= 10_000
