"""What is evaluated, a bundle or a checkpoint, and the test set as it encodes it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from multifold.analysis.explanation import HeatMap, WordShares
from multifold.bundle.bundle import ViewSpec
from multifold.bundle.canary import open_encoder
from multifold.bundle.point_groups import PointSpec
from multifold.bundle.preprocess import ImageSpec
from multifold.manifest import ManifestEntry
from multifold.scores import apply_signs
from multifold.types import ExplanationMethod, Features, PixelBatch, Pixels, Vector
from training.data.points import load_points
from training.data.views import ItemViews, load_views, open_picture
from training.retrieval.directions import PointEncoder, RetrievalEncoder
from training.retrieval.features import (
    NO_FEATURES,
    FeatureBank,
    HeldOutFeatures,
    make_bank,
    make_text_bank,
)


class PairExplainer(Protocol):
    """Says what in a picture and in a text makes them match the index vector of the other."""

    @property
    def tokens(self) -> int:
        """How many parts of a vector are compared pair by pair."""

    def picture(self, square: Pixels, other: Vector) -> HeatMap: ...

    def text(self, text: str, other: Vector) -> WordShares: ...


@dataclass(frozen=True)
class EvaluatedEncoder:
    """An encoder, and how its pictures are preprocessed."""

    encoder: RetrievalEncoder
    image: ImageSpec
    views: ViewSpec
    geometry: str
    about: Mapping[str, Any]  # where it comes from, for the report
    points: PointSpec | None = None  # how it reads the points of a mesh
    # of a checkpoint only: it explains by gradients, and tells what its head reads
    explainer: Callable[[ExplanationMethod | None], PairExplainer] | None = None
    before_projection: Callable[[PixelBatch], Features] | None = None
    redraw: Callable[[int | None, int], int] | None = None  # its random features: how many, seed -> how many


def evaluated_bundle(folder: Path) -> EvaluatedEncoder:
    """A verified bundle; needs no torch."""
    encoder = open_encoder(folder)
    bundle = encoder.bundle
    about = {"bundle": bundle.name, "bundle_id": bundle.bundle_id, "vector_id": bundle.vector_id}
    return EvaluatedEncoder(encoder, bundle.image, bundle.views, bundle.geometry.name, about, bundle.points)


@dataclass(frozen=True)
class MatchingPair:
    """A matching picture and text, with their index vectors, signs applied."""

    picture: Pixels
    text: str
    picture_vector: Vector
    text_vector: Vector


def matching_pairs(
    encoder: RetrievalEncoder, pictures: Sequence[Pixels], texts: Sequence[str]
) -> list[MatchingPair]:
    sides = (encoder.pixels(np.stack(pictures)), encoder.texts(texts).features)
    vectors = [apply_signs(encoder.vectors(features), encoder.query_signs) for features in sides]
    return [MatchingPair(*both) for both in zip(pictures, texts, *vectors, strict=True)]


PICTURES_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class TestSet:
    __test__ = False  # no test for pytest

    entries: Sequence[ManifestEntry]
    observed: HeldOutFeatures
    views: ItemViews | None  # of the items with a mesh, in order


def encode_test_set(subject: EvaluatedEncoder, entries: Sequence[ManifestEntry], cache: Path) -> TestSet:
    """Encode all observations of these items; views are rendered once and cached."""
    captions = [entry.texts for entry in entries]
    meshed = [entry for entry in entries if entry.mesh is not None]
    views = load_views(meshed, subject.views, subject.image, cache) if meshed else None
    flat = np.empty((0,)) if views is None else views.reshape(-1, *views.shape[2:])
    count = len(flat) // max(1, len(meshed))
    shapes = make_bank(_encode(subject, flat, "views"), [count if entry.mesh else 0 for entry in entries])
    paths = [path for entry in entries for path in entry.images]
    photos = make_bank(_encode(subject, paths, "photos"), [len(entry.images) for entry in entries])
    said = [text for some in captions for text in some]
    texts = make_text_bank(subject.encoder.texts(said).features if said else NO_FEATURES, captions)
    observed = HeldOutFeatures(captions, texts, photos, shapes)
    if subject.points is not None and meshed:
        assert isinstance(subject.encoder, PointEncoder)
        groups = load_points(meshed, subject.points, subject.views.up, cache)
        points = FeatureBank(subject.encoder.grouped_points(groups), shapes.owners[shapes.starts])
        observed = replace(observed, points=points)
    return TestSet(entries, observed, views)


def _encode(subject: EvaluatedEncoder, pictures: Sequence[Path] | np.ndarray, name: str) -> Features:
    """The features of pictures, opened as they are needed."""
    if not len(pictures):
        return NO_FEATURES
    features = []
    for start in tqdm(
        range(0, len(pictures), PICTURES_AT_ONCE), desc=f"encode {name}", unit="batch", disable=None
    ):
        some = pictures[start : start + PICTURES_AT_ONCE]
        opened = (
            some if isinstance(some, np.ndarray) else np.stack([open_picture(p, subject.image) for p in some])
        )
        features.append(subject.encoder.pixels(opened))
    return np.concatenate(features)
