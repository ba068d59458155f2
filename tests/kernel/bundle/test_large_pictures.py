"""Large pictures are decoded small, and not many at once."""

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import ExifTags, Image

from multifold.bundle import preprocess
from multifold.bundle.preprocess import ImageSpec, decode


def encoded(picture: Image.Image, form: str) -> bytes:
    out = io.BytesIO()
    picture.save(out, form)
    return out.getvalue()


def gradient(side: int) -> Image.Image:
    return Image.merge(
        "RGB", [Image.linear_gradient("L").resize((side, side)).rotate(90 * k) for k in range(3)]
    )


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_a_large_picture_is_shrunk_and_looks_the_same(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(gradient(1000), form)
    whole = decode(data)
    monkeypatch.setattr(preprocess, "LARGE_PICTURE", 300_000)
    small = decode(data)
    assert (whole.size, small.size) == ((1000, 1000), (500, 500))
    seen = [preprocess.pixels(one, ImageSpec(224)).astype(int) for one in (whole, small)]
    assert np.abs(seen[0] - seen[1]).max() <= 4


def test_a_large_picture_with_holes_and_odd_sides_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = gradient(301).crop((0, 0, 301, 207))
    picture.putalpha(Image.linear_gradient("L").resize(picture.size))
    data = encoded(picture, "PNG")
    whole = decode(data)
    monkeypatch.setattr(preprocess, "LARGE_PICTURE", 10_000)
    monkeypatch.setattr(preprocess, "BAND", 4)
    small = decode(data)
    assert small.size == (101, 69)
    assert np.abs(np.asarray(small).astype(int) - np.asarray(whole.reduce(3))).max() <= 1


def test_a_large_photo_is_upright(monkeypatch: pytest.MonkeyPatch) -> None:
    photo, out, exif = gradient(400).crop((0, 0, 400, 200)), io.BytesIO(), Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    photo.save(out, "PNG", exif=exif)
    whole = decode(out.getvalue())
    monkeypatch.setattr(preprocess, "LARGE_PICTURE", 20_000)
    small = decode(out.getvalue())
    assert (whole.size, small.size) == ((200, 400), (100, 200))
    assert np.abs(np.asarray(small).astype(int) - np.asarray(whole.reduce(2))).max() <= 1


def test_large_pictures_are_decoded_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    now, most, lock = [0], [0], threading.Lock()
    flatten = preprocess.flatten

    def watched(image: Image.Image) -> Image.Image:
        with lock:
            now[0] += image.width * image.height
            most[0] = max(most[0], now[0])
        time.sleep(0.02)
        with lock:
            now[0] -= image.width * image.height
        return flatten(image)

    monkeypatch.setattr(preprocess, "flatten", watched)
    large, small = (encoded(gradient(side), "PNG") for side in (90, 30))
    with ThreadPoolExecutor(8) as threads:
        decoded = list(threads.map(lambda data: decode(data, 10_000), [large, small] * 8))
    assert len(decoded) == 16
    assert 8100 <= most[0] <= 10_000
