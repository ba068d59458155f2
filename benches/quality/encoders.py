"""The encoders of the benchmark: one of random weights, and one with another text reader."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.encoder import Encoder

TOWERS = ("text.onnx", "image.onnx", "points.onnx")
KEPT_NUMBERS = 64  # numbers of a tensor that stays as it is


def write_random_bundle(source: Path, folder: Path) -> Path:
    """A bundle whose towers have the weights of another in random order; it has no reader."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns(bundles.READER_FOLDER, "explain*"))
    random = np.random.default_rng(54)
    for path in filter(Path.is_file, map(folder.joinpath, TOWERS)):
        model = onnx.load(path)
        for tensor in model.graph.initializer:
            values = numpy_helper.to_array(tensor)
            if values.dtype == np.float32 and values.size > KEPT_NUMBERS and np.isfinite(values).all():
                mixed = random.permutation(values.ravel()).reshape(values.shape)
                tensor.CopyFrom(numpy_helper.from_array(mixed, tensor.name))
        onnx.save(model, path)
    texts, pictures, _ = canary.read(folder / canary.CANARY_FILE)
    bundle = replace(bundles.load(source), folder=folder, name="random", files=bundles.hash_files(folder))
    canary.record(Encoder(bundle, threads=1), texts, pictures)
    bundles.save(bundle)
    return folder


def write_with_reader(source: Path, reader: Path, folder: Path) -> Path:
    """A bundle with another text reader."""
    shutil.copytree(source, folder)
    bundles.add_reader(folder, reader)
    return folder
