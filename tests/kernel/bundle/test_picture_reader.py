"""Texts in pictures, read by the package that carries its models."""

import numpy as np
import pytest
from PIL import Image

from multifold.bundle.picture_reader import packaged_picture_reader
from multifold.bundle.preprocess import ImageError
from tests.files import picture_file, sign_file


def test_lines_are_read_from_the_top_to_the_bottom() -> None:
    reader = packaged_picture_reader()
    assert reader is not None
    assert reader.read(sign_file("STOP", "Station Street")) == ("STOP", "Station Street")
    assert reader is packaged_picture_reader()
    assert reader.id.startswith("rapidocr-")


def test_a_picture_without_a_text_has_no_lines() -> None:
    reader = packaged_picture_reader()
    assert reader is not None
    assert reader.read(sign_file()) == ()
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    assert reader.read(picture_file(Image.fromarray(noise))) == ()


def test_what_is_no_picture_is_refused() -> None:
    reader = packaged_picture_reader()
    assert reader is not None
    with pytest.raises(ImageError):
        reader.read(b"no picture")
