"""The words of the classes fit the classifier, and the stored bridge is made of them."""

import numpy as np
import pytest
from torchvision.models import EfficientNet_B0_Weights

from app.pull.bridge import CLASSES_FILE, LOOK, MEANING, Bridge, make_bridge
from app.pull.efficientnet import read_weights
from multifold.bundle.text_reader import SentenceReader, packaged_reader


def class_names() -> list[str]:
    lines = CLASSES_FILE.read_text(encoding="ascii").splitlines()
    return [line.partition("|")[0] for line in lines]


def test_each_class_has_a_name_of_its_own_and_three_scenes() -> None:
    lines = CLASSES_FILE.read_text(encoding="ascii").splitlines()
    parts = [line.split("|") for line in lines]
    assert len({*class_names()}) == len(lines) == 1000
    assert all(len(part) == 2 for part in parts)
    scenes = [scenes.split(";") for _, scenes in parts]
    assert all(len(some) == 3 and all(4 <= len(one.split()) <= 14 for one in some) for some in scenes)


def test_the_classes_stand_in_the_order_of_the_classifier() -> None:
    """Most have a word of the name by which others know the class."""
    theirs = EfficientNet_B0_Weights.IMAGENET1K_V1.meta["categories"]
    shared = [
        bool({*ours.lower().split()} & {*name.lower().replace("-", " ").split()})
        for ours, name in zip(class_names(), theirs, strict=True)
    ]
    assert np.mean(shared) > 0.8
    shifted = [
        bool({*ours.lower().split()} & {*name.lower().split()})
        for ours, name in zip(class_names(), theirs[1:], strict=False)
    ]
    assert np.mean(shifted) < 0.4


@pytest.mark.slow
def test_the_stored_bridge_is_that_of_the_words_and_the_weights() -> None:
    reader = packaged_reader(SentenceReader)
    assert reader is not None
    stored, made = Bridge.load(), make_bridge(reader, read_weights()["_fc.weight"])
    assert stored.axes.shape == (reader.dim, MEANING)
    assert stored.look.shape == (1280, LOOK)
    assert stored.middle == pytest.approx(made.middle, abs=1e-3)
    # whichever way the axes are turned
    assert stored.classes @ stored.classes.T == pytest.approx(made.classes @ made.classes.T, abs=2e-2)
    assert stored.look @ stored.look.T == pytest.approx(made.look @ made.look.T, abs=2e-2)
