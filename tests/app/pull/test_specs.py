"""The preprocessing of pictures that a configuration asks for, or why it cannot be done exactly."""

from pathlib import Path
from typing import Any

import pytest

from app.pull.published_files import PullError, open_published_folder, recognise_layout
from app.pull.specs import image_spec
from multifold.bundle.preprocess import ImageSpec
from tests.app.pull import published
from tests.app.pull.published import SIZE, clip_seeing


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (clip_seeing(resample=1), "resample 1"),
        (clip_seeing(rescale_factor=1 / 127.5), "rescale_factor"),
        (clip_seeing(do_rescale=False), "do_rescale False"),
        (clip_seeing(do_resize=False), "do_resize False"),
        (clip_seeing(do_pad=True), "the step do_pad"),
        (clip_seeing(do_center_crop=False), "not cropped to a square"),
        (clip_seeing(size={"height": 24, "width": 32}), "no square"),
        (clip_seeing(image_mean=[0.5]), "three numbers"),
        (clip_seeing(image_std=[0, 1, 1]), "std is above zero"),
        ({"size": 24}, "cannot be understood"),
    ],
)
def test_what_cannot_be_seen_exactly_is_refused(said: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    folder = published.clip(tmp_path)
    published.say(folder / "preprocessor_config.json", said)
    source = open_published_folder(folder, None, {})
    with pytest.raises(PullError, match=sentence):
        image_spec(source, recognise_layout(source.names(), "fp32"))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (clip_seeing(), ImageSpec(SIZE, "shortest", "bicubic", (0.48, 0.45, 0.4), (0.26, 0.25, 0.27))),
        (
            clip_seeing(size=SIZE, crop_size=SIZE, do_normalize=False, resample=2),
            ImageSpec(SIZE, "shortest", "bilinear", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
        ),
        (
            {"size": SIZE, "resample": 3, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
            ImageSpec(SIZE, "squash", "bicubic", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        ),
    ],
)
def test_what_can_be_seen_is_mapped(said: dict[str, Any], expected: ImageSpec, tmp_path: Path) -> None:
    folder = published.clip(tmp_path)
    published.say(folder / "preprocessor_config.json", said)
    source = open_published_folder(folder, None, {})
    assert image_spec(source, recognise_layout(source.names(), "fp32")) == expected
