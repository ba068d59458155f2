"""Retrieval numbers of an encoder, direction by direction, by the vectors that an index would hold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Int64

from multifold.bundle.encoder import EncodedTexts
from multifold.metrics import bootstrap, chance_recall, median_rank, ndcg_at_k, ranks, recall_at_k
from multifold.scores import VectorScorer, shorten, similarities
from multifold.types import Features, Metric, PixelBatch, Vector, Vectors
from training.data.points import ItemPoints
from training.data.views import ItemViews
from training.retrieval.features import (
    NO_BANK,
    NO_FEATURES,
    FeatureBank,
    HeldOutFeatures,
    make_bank,
    make_text_bank,
)

CUTS = (1, 5, 10)
CHANCE = f"chance of R@{CUTS[-1]}"
BY_CHANCE = (
    f"Warning: no direction is beyond chance at R@{CUTS[-1]}. Measure on more items, or learn from more: "
    "this encoder may know nothing."
)
Pooling: TypeAlias = Literal["each", "mean", "max", "hero"]
Key: TypeAlias = tuple[str, Pooling]
OBSERVATIONS: tuple[Pooling, ...] = ("each", "mean", "max")
SHAPES: tuple[Pooling, ...] = ("mean", "max", "hero")
POOLS: Mapping[str, tuple[Pooling, ...]] = {
    "text_to_shape": SHAPES,
    "shape_to_text": OBSERVATIONS,
    "text_to_image": OBSERVATIONS,
    "image_to_text": OBSERVATIONS,
    "agg_text_to_image": OBSERVATIONS,
    "image_to_shape": SHAPES,
    "shape_to_shape": SHAPES,
    "text_to_points": ("mean",),
    "text_to_shape_by_all": ("mean",),
}
BY_ALL = "text_to_shape_by_all"  # views and points added up
POINT_DIRECTIONS = ("text_to_points", BY_ALL)
VIEW_SHARE, POINT_SHARE = 2.0, 1.0  # of standard scores
# What training watches and a bundle reports.
STANDARD: tuple[Key, ...] = (("text_to_shape", "mean"), ("shape_to_text", "each"), ("text_to_image", "each"))


@runtime_checkable
class PointEncoder(Protocol):
    """What may read shapes by their points."""

    def grouped_points(self, groups: ItemPoints) -> Features: ...


@runtime_checkable
class RetrievalEncoder(VectorScorer, Protocol):
    """What is evaluated: an exported bundle, or a model in training."""

    def pixels(self, batch: PixelBatch) -> Features: ...

    def texts(self, texts: Sequence[str]) -> EncodedTexts: ...

    def vectors(self, features: Features) -> Vectors: ...


@dataclass(frozen=True, eq=False)
class RetrievalDirection:
    """Scores of all queries with the whole gallery, the relevant columns, and each query's item."""

    scores: Float32[np.ndarray, "q g"]
    relevant: Bool[np.ndarray, "q g"]
    items: Int64[np.ndarray, " q"]

    def only(self, queries: Bool[np.ndarray, " q"]) -> "RetrievalDirection":
        return RetrievalDirection(self.scores[queries], self.relevant[queries], self.items[queries])

    def answerable(self) -> "RetrievalDirection":
        """Without the queries whose item lacks the side that is searched."""
        return self.only(np.asarray(self.relevant.any(axis=1)))


def encode(
    encoder: RetrievalEncoder,
    views: ItemViews,
    captions: Sequence[Sequence[str]],
    points: Features | None = None,
) -> HeldOutFeatures:
    """The features of a test set, of which those of points are known already, if there are any."""
    pixels = np.concatenate([encoder.pixels(item) for item in views])
    texts = encoder.texts([text for some in captions for text in some]).features
    photos = make_bank(NO_FEATURES, [0] * len(captions))
    shapes = make_bank(pixels, [views.shape[1]] * len(views))
    observed = HeldOutFeatures(captions, make_text_bank(texts, captions), photos, shapes)
    if points is not None:
        observed = replace(observed, points=make_bank(points, [1] * len(points)))
    return observed


def served_directions(encoder: RetrievalEncoder, observed: HeldOutFeatures) -> dict[str, RetrievalDirection]:
    """The same as `directions`, as a service ranks: shapes with points are found and ask by all of them."""
    found = directions(encoder, observed)
    if len(observed.points):
        found["text_to_shape"] = direction(encoder, observed, BY_ALL, "mean")
        asking = replace(observed, shape=observed.whole_shapes)
        found["shape_to_text"] = direction(encoder, asking, "shape_to_text", "each")
    return found


def directions(encoder: RetrievalEncoder, observed: HeldOutFeatures) -> dict[str, RetrievalDirection]:
    """The directions that are watched during training."""
    return {name: direction(encoder, observed, name, pool) for name, pool in STANDARD}


def direction(
    encoder: RetrievalEncoder,
    observed: HeldOutFeatures,
    name: str,
    pool: Pooling,
    *,
    equal_texts: bool = False,
) -> RetrievalDirection:
    """One direction; with `equal_texts` items with the same text as the query's are relevant, too."""
    queries, gallery = parties(observed, name)
    scores, columns = score_gallery(encoder, queries, gallery, pool)
    if name == BY_ALL:
        by_points, _ = score_gallery(encoder, queries, observed.points, pool)
        scores = VIEW_SHARE * _standard(scores) + POINT_SHARE * _standard(by_points)
    relevant = relevant_columns(observed, queries, columns, equal_texts)
    return RetrievalDirection(scores, relevant, queries.owners).answerable()


def parties(observed: HeldOutFeatures, name: str) -> tuple[FeatureBank, FeatureBank]:
    """The queries, and all observations that may answer."""
    side, target = name.split("_to_")
    if name == "image_to_shape" and not len(observed.image):
        return observed.shape.halves()
    if side == target:
        first, second = _bank(observed, target, gallery=True).halves()
        return (first.pooled() if side == "shape" else first), second
    return _bank(observed, side), _bank(observed, target, gallery=True)


def _standard(scores: Float32[np.ndarray, "q g"]) -> Float32[np.ndarray, "q g"]:
    """How many standard deviations of a query's scores each lies above their mean."""
    spread = np.maximum(scores.std(axis=1, keepdims=True), 1e-9)
    standard: Float32[np.ndarray, "q g"] = (scores - scores.mean(axis=1, keepdims=True)) / spread
    return standard


def _bank(observed: HeldOutFeatures, kind: str, *, gallery: bool = False) -> FeatureBank:
    if kind == "points":
        return observed.points
    if kind == "shape_by_all":
        return observed.shape if len(observed.points) else NO_BANK
    if kind == "agg_text":
        return observed.text.pooled()
    if kind == "shape":
        return observed.shape if gallery else observed.shape.pooled()
    return observed.text if kind == "text" else observed.pictures


def score_gallery(
    encoder: RetrievalEncoder, queries: FeatureBank, gallery: FeatureBank, pool: Pooling
) -> tuple[Float32[np.ndarray, "q g"], FeatureBank]:
    """Scores of all pairs, and the owners of the columns."""
    columns = gallery.pooled() if pool == "mean" else gallery.first() if pool == "hero" else gallery
    scores = similarities(encoder, encoder.vectors(queries.features), encoder.vectors(columns.features))
    if pool != "max":
        return scores, columns
    best: Float32[np.ndarray, "q g"] = np.maximum.reduceat(scores, gallery.starts, axis=1)
    return best, FeatureBank(gallery.features[gallery.starts], gallery.owners[gallery.starts])


def relevant_columns(
    observed: HeldOutFeatures, queries: FeatureBank, columns: FeatureBank, equal_texts: bool
) -> Bool[np.ndarray, "q g"]:
    """The relevant columns of each query: those of its item, and with `equal_texts` of its texts."""
    mask: Bool[np.ndarray, "q g"] = queries.owners[:, None] == columns.owners[None, :]
    if not equal_texts:
        return mask
    table = observed.text_items
    if queries.texts is not None and columns.texts is not None:
        mask |= queries.texts[:, None] == columns.texts[None, :]
    elif columns.texts is not None:
        mask |= table[columns.texts][:, queries.owners].T
    elif queries.texts is not None:
        mask |= table[queries.texts][:, columns.owners]
    else:
        mask |= table[:, queries.owners].T @ table[:, columns.owners]
    return mask


def available_directions(observed: HeldOutFeatures) -> list[Key]:
    """Every direction with its pools, without those that lack a side in this set."""
    keys = [(name, pool) for name, pools in POOLS.items() for pool in pools]
    if not len(observed.image):  # views stand in for photos: pooled ones are the shape, another direction
        keys = [key for key in keys if key[0] != "text_to_image" or key[1] == "each"]
    return [key for key in keys if all(map(len, parties(observed, key[0])))]


def search_among(
    encoder: RetrievalEncoder, observed: HeldOutFeatures, equal_texts: bool
) -> Callable[[str, Pooling], RetrievalDirection | None]:
    """Answers with a direction by its name and pool; with nothing if this set lacks a side of it."""
    possible = set(available_directions(observed))

    def search(name: str, pool: Pooling) -> RetrievalDirection | None:
        if (name, pool) not in possible:
            return None
        return direction(encoder, observed, name, pool, equal_texts=equal_texts)

    return search


@dataclass(frozen=True)
class ShortenedEncoder:
    """An encoder whose index vectors are cut to their first numbers, and made unit vectors again."""

    whole: RetrievalEncoder
    length: int

    metric: ClassVar[Metric] = "ip"
    query_signs: ClassVar[Vector | None] = None
    rescores: ClassVar[bool] = False  # geometries that nest are compared as an index does

    def rescore(self, query: Vectors, candidates: Float32[np.ndarray, "q k d"]) -> Float32[np.ndarray, "q k"]:
        return self.whole.rescore(query, candidates)

    def pixels(self, batch: PixelBatch) -> Features:
        return self.whole.pixels(batch)

    def texts(self, texts: Sequence[str]) -> EncodedTexts:
        return self.whole.texts(texts)

    def vectors(self, features: Features) -> Vectors:
        return shorten(self.whole.vectors(features), self.length)


def report_prefixes(
    encoder: RetrievalEncoder, observed: HeldOutFeatures, lengths: Sequence[int]
) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """The same numbers, of vectors that are cut to each of these lengths."""
    return {str(length): report(ShortenedEncoder(encoder, length), observed) for length in lengths}


def report(encoder: RetrievalEncoder, observed: HeldOutFeatures) -> Mapping[str, Mapping[str, Any]]:
    """The numbers of the directions that are watched during training."""
    return {name: numbers(one) for name, one in directions(encoder, observed).items()}


def tells_nothing(measured: Mapping[str, Any]) -> bool:
    """Whether what was measured of a direction may be chance."""
    _, low, _ = measured[f"R@{CUTS[-1]}"]
    return bool(low <= measured[CHANCE])


def numbers(direction: RetrievalDirection) -> dict[str, Any]:
    """Recalls with 95 % bootstrap intervals, the last of them by chance, NDCG@5 and the median rank.

    Queries of one item are not independent: the intervals draw items, not queries.
    """
    places = ranks(direction.scores, direction.relevant)
    queries, gallery = direction.scores.shape
    measures: dict[str, Any] = {"queries": queries, "gallery": gallery}
    for cut in CUTS:
        hits = recall_at_k(places, cut)
        values = (hits.mean(), *bootstrap(hits, groups=direction.items))
        measures[f"R@{cut}"] = [round(float(value), 4) for value in values]
    right = np.count_nonzero(direction.relevant, axis=1)
    measures[CHANCE] = round(chance_recall(right, gallery, CUTS[-1]), 4)
    measures["NDCG@5"] = round(float(ndcg_at_k(direction.scores, direction.relevant, 5).mean()), 4)
    measures["median_rank"] = median_rank(places)
    return measures
