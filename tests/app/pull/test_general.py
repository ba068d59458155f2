"""The general bundle, made of installed packages, sees pictures and reads texts in one space."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from app.pull import general
from app.pull.bridge import LOOK, MEANING
from app.pull.general import MEANING_SHARE, build_general
from app.pull.published_files import PullError
from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import BundleError
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.cli import main

VECTORS = "8689641a3137a33b"  # another one would part all collections of it from their encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tmp_path_factory.mktemp("general") / "bundle"
    assert main(["pull", "packaged", str(folder)]) == 0
    return open_encoder(folder)


def traffic_light() -> Image.Image:
    """A black box with three lamps before a blue sky, on a pole."""
    picture = Image.new("RGB", (400, 500), (120, 170, 230))
    draw = ImageDraw.Draw(picture)
    draw.rectangle((190, 330, 210, 500), fill=(60, 60, 60))
    draw.rounded_rectangle((130, 40, 270, 340), 20, fill=(20, 20, 20))
    for top, colour in ((60, (230, 30, 30)), (150, (90, 80, 20)), (240, (20, 70, 30))):
        draw.ellipse((160, top, 240, top + 80), fill=colour)
    return picture


def test_its_vectors_are_the_same_wherever_it_is_made(encoder: Encoder) -> None:
    assert encoder.bundle.vector_id == VECTORS
    assert encoder.dim == LOOK + MEANING
    assert encoder.bundle.sees == general.SEES
    assert encoder.bundle.alike == general.ALIKE


def test_a_picture_means_what_it_shows(encoder: Encoder) -> None:
    texts = [
        "traffic light",
        "a dog in the snow",
        "a plate of pasta",
        "a red sports car",
        "two people skiing",
    ]
    scores = (
        encoder.vectors(encoder.texts(texts).features)
        @ encoder.vectors(encoder.pictures([traffic_light()]))[0]
    )
    assert scores.argmax() == 0, dict(zip(texts, scores.tolist(), strict=True))


def test_it_says_what_a_picture_looks_like(encoder: Encoder) -> None:
    features = encoder.pictures([traffic_light(), Image.new("RGB", (300, 300), "white")])
    assert encoder.name_pictures(features) == [(), ()]  # a drawing of lamps, and nothing at all
    assert encoder.looks is not None
    lenient = replace(encoder.looks, least=0.25)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(encoder, "looks", lenient)
        assert encoder.name_pictures(features)[0][0] == "traffic light"


def test_features_are_look_and_meaning_and_texts_have_the_latter_alone(encoder: Encoder) -> None:
    pictures = encoder.pictures([traffic_light(), Image.new("RGB", (300, 300), "white")])
    assert np.linalg.norm(pictures[:, :LOOK], axis=1) == pytest.approx(1.0, abs=1e-5)
    assert np.linalg.norm(pictures[:, LOOK:], axis=1) == pytest.approx(MEANING_SHARE, abs=1e-5)
    texts = encoder.texts(["a red chair", "word " * 600, ""])
    assert not texts.features[:, :LOOK].any()
    assert np.linalg.norm(texts.features, axis=1) == pytest.approx(
        [1.0, 1.0, 0.0], abs=1e-5
    )  # it says nothing
    assert texts.cut == (False, True, False)


def test_a_text_has_the_same_feature_whoever_is_beside_it(encoder: Encoder) -> None:
    texts = ["a dog", "a black cat on a chair", "street"]
    together = encoder.texts(texts).features
    alone = np.concatenate([encoder.texts([one]).features for one in texts])
    assert together == pytest.approx(alone, abs=1e-6)


def test_one_reading_serves_the_tower_and_the_reader(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tower has read the reader knows."""
    reader = encoder.reader
    assert reader is not None
    encoder.texts(["a sentence that nobody has read yet"])
    monkeypatch.setattr(reader, "_session", None)
    assert reader.encode(["a sentence that nobody has read yet"]).any()


def test_its_reader_decides_vectors_and_cannot_be_changed(encoder: Encoder) -> None:
    folder = encoder.bundle.reader_folder
    assert folder is not None
    with pytest.raises(BundleError, match="was made for the reader that it has"):
        bundles.add_reader(encoder.bundle.folder, folder)


def test_without_the_packages_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(general, "packaged_path", lambda package, path: None)
    with pytest.raises(PullError, match="no installed package has"):
        build_general(tmp_path / "bundle")
    assert not any(tmp_path.iterdir())
