"""What is evaluated, a bundle or a checkpoint, and the test set as it encodes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from tqdm import tqdm

from multifold.bundle.bundle import ViewSpec, file_hash
from multifold.bundle.canary import open_encoder
from multifold.bundle.preprocess import ImageSpec
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from multifold.types import Features
from training.data.views import load_views, open_picture
from training.retrieval.directions import RetrievalEncoder
from training.retrieval.features import NO_FEATURES, FeatureBank, HeldOutFeatures, make_bank, make_text_bank


@dataclass(frozen=True)
class EvaluatedEncoder:
    """An encoder, and how its pictures are preprocessed."""

    encoder: RetrievalEncoder
    image: ImageSpec
    views: ViewSpec
    geometry: str
    about: Mapping[str, Any]  # where it comes from, for the report


def open_evaluated(path: Path) -> EvaluatedEncoder:
    if path.is_dir():
        return evaluated_bundle(path)
    if not path.is_file():
        raise MultifoldError(f"there is neither a bundle nor a checkpoint at {path}")
    from training import checkpoint, prepare
    from training.retrieval.encoder import TorchEncoder

    trained = checkpoint.load_checkpoint(path)
    recipe = trained.recipe
    encoder = TorchEncoder(trained.model, prepare.reader(recipe, trained.tokenizer))
    about = {"checkpoint": path.name, "sha256": file_hash(path), "recipe": recipe.name}
    image, views = prepare.image_spec(recipe), prepare.view_spec(recipe)
    return EvaluatedEncoder(encoder, image, views, trained.model.geometry.name, about)


def evaluated_bundle(folder: Path) -> EvaluatedEncoder:
    """A verified bundle; needs no torch."""
    encoder = open_encoder(folder)
    bundle = encoder.bundle
    about = {"bundle": bundle.name, "bundle_id": bundle.bundle_id, "vector_id": bundle.vector_id}
    return EvaluatedEncoder(encoder, bundle.image, bundle.views, bundle.geometry.name, about)


def _evaluated_checkpoint(path: Path) -> EvaluatedEncoder:
    from multifold.bundle.bundle import file_hash
    from training import checkpoint, prepare
    from training.retrieval.encoder import TorchEncoder

    trained = checkpoint.load_checkpoint(path)
    recipe = trained.recipe
    encoder = TorchEncoder(trained.model, prepare.reader(recipe, trained.tokenizer))
    about = {"checkpoint": path.name, "sha256": file_hash(path), "recipe": recipe.name}
    return EvaluatedEncoder(
        encoder, prepare.image_spec(recipe), prepare.view_spec(recipe), trained.model.geometry.name, about
    )


AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class TestSet:
    __test__ = False  # no test for pytest

    entries: Sequence[ManifestEntry]
    observed: HeldOutFeatures
    views: UInt8[np.ndarray, "i v h w 3"] | None  # of the items with a mesh, in order


def encode_test_set(subject: EvaluatedEncoder, entries: Sequence[ManifestEntry], cache: Path) -> TestSet:
    """Encode all observations of these items; views are rendered once and cached."""
    captions = [entry.texts for entry in entries]
    meshed = [entry for entry in entries if entry.mesh is not None]
    views = load_views(meshed, subject.views, subject.image, cache) if meshed else None
    count = 0 if views is None else views.shape[1]
    shape = make_bank(NO_FEATURES, [0] * len(entries))
    if views is not None:
        shape = make_bank(_encode_views(subject, views), [count if entry.mesh else 0 for entry in entries])
    texts = subject.encoder.texts([text for some in captions for text in some]).features
    photos = _encode_photos(subject, entries)
    return TestSet(entries, HeldOutFeatures(captions, make_text_bank(texts, captions), photos, shape), views)


def _encode_views(subject: EvaluatedEncoder, views: UInt8[np.ndarray, "i v h w 3"]) -> Features:
    flat = views.reshape(-1, *views.shape[2:])
    steps = range(0, len(flat), AT_ONCE)
    bar = tqdm(steps, desc="encode views", unit="batch", disable=None)
    return np.concatenate([subject.encoder.pixels(flat[start : start + AT_ONCE]) for start in bar])


def _encode_photos(subject: EvaluatedEncoder, entries: Sequence[ManifestEntry]) -> FeatureBank:
    counts = [len(entry.images) for entry in entries]
    paths = [path for entry in entries for path in entry.images]
    if not paths:
        return make_bank(NO_FEATURES, counts)
    steps = range(0, len(paths), AT_ONCE)
    bar = tqdm(steps, desc="encode photos", unit="batch", disable=None)
    batches = ([open_picture(path, subject.image) for path in paths[s : s + AT_ONCE]] for s in bar)
    return make_bank(np.concatenate([subject.encoder.pixels(np.stack(batch)) for batch in batches]), counts)
