"""What joins a picture classifier and a text reader: its classes as the reader understands them.

    python -m app.pull.bridge

A picture's meaning is the sum of what its likely classes mean, by their probabilities (ConSE). A class means
its name and three scenes in which it comes out on top, as `classes.txt` has them. What all classes have in
common says nothing and is taken away. What a picture looks like is the classifier's own features, on the axes
along which its classes differ most.

The numbers are kept in `bridge.npz`, since they would differ from machine to machine in their last digits,
and the vectors of all collections with them. This module makes them anew, where classes.txt has changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float32

from app.pull.efficientnet import read_weights
from multifold.bundle.text_reader import SentenceReader, TextReader, packaged_reader
from multifold.errors import MultifoldError

HERE = Path(__file__).parent
CLASSES_FILE = HERE / "classes.txt"  # a line a class, in the classifier's order: name|scene;scene;scene
BRIDGE_FILE = HERE / "bridge.npz"
SCENES_WEIGHT = 2.0  # of all scenes together, beside the name's 1
MEANING = 128  # numbers
LOOK = 256


@dataclass(frozen=True)
class Bridge:
    """Classes as the reader understands them, and the axes of what a picture looks like."""

    middle: Float[np.ndarray, " s"]  # of the reader's vectors of classes
    axes: Float[np.ndarray, "s m"]  # of what they mean
    classes: Float[np.ndarray, "c m"]  # on these axes
    look: Float[np.ndarray, "f l"]  # axes of the classifier's features

    @classmethod
    def load(cls) -> "Bridge":
        with np.load(BRIDGE_FILE) as stored:
            return cls(**{name: stored[name].astype(np.float32) for name in cls.__dataclass_fields__})


def make_bridge(reader: TextReader, classifier: Float32[np.ndarray, "c f"]) -> Bridge:
    """The bridge of a reader and the weights of a classifier."""
    names, scenes = zip(*_read_classes(), strict=True)
    together = reader.encode(names)
    for nth in zip(*scenes, strict=True):
        together = together + reader.encode(nth) * np.float32(SCENES_WEIGHT / len(scenes[0]))
    units = together / np.linalg.norm(together, axis=1, keepdims=True)
    middle = units.mean(axis=0)
    axes = _main_axes(units - middle, MEANING)
    look = _main_axes(classifier - classifier.mean(axis=0), LOOK)
    return Bridge(middle, axes, (units - middle) @ axes, look)


def _main_axes(rows: Float32[np.ndarray, "n d"], count: int) -> Float32[np.ndarray, "d k"]:
    """The axes along which rows differ most, that most of all first."""
    axes: np.ndarray = np.linalg.svd(rows, full_matrices=False)[2][:count].T
    return axes.astype(np.float32)


def class_names() -> list[str]:
    return [name for name, _ in _read_classes()]


def _read_classes() -> list[tuple[str, Sequence[str]]]:
    lines = CLASSES_FILE.read_text(encoding="utf-8").splitlines()
    parts = [line.partition("|") for line in lines]
    return [(name, tuple(scenes.split(";"))) for name, _, scenes in parts]


def main() -> None:
    reader = packaged_reader(SentenceReader)
    if reader is None:
        raise MultifoldError("the packages of the extra `general` are not installed")
    made = make_bridge(reader, read_weights()["_fc.weight"])
    np.savez_compressed(BRIDGE_FILE, **{name: part.astype(np.float16) for name, part in vars(made).items()})


if __name__ == "__main__":
    main()
