"""Retrieval numbers of an encoder, by the vectors that an index would hold, compared as in a search.

A direction says who asks whom; a pool says what answers: `each` observation for itself, or items, by the
`mean` of their observations, by their best one (`max`) or by their first one (`hero`).

text → shape: every caption asks, the items' views answer; shape → text: every item's mean view asks.
text → image, image → text: captions and pictures, one by one. agg_text: an item's captions as their mean.
shape → shape: the mean of every other view asks, the other views answer; likewise texts ask texts, photos
ask photos. So it is with image → shape where
the pictures are the views themselves; photos ask all views.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8

from multifold.encoder import EncodedTexts
from multifold.metrics import bootstrap, median_rank, ndcg_at_k, ranks, recall_at_k
from multifold.scores import Compares, likeness
from multifold.types import Features, PixelBatch, Vectors
from training.evaluate.observed import NOBODY, Bank, Observed, bank, text_bank

CUTS = (1, 5, 10)
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
}
# What training watches and a bundle reports.
STANDARD: tuple[Key, ...] = (("text_to_shape", "mean"), ("shape_to_text", "each"), ("text_to_image", "each"))


@runtime_checkable
class Encodes(Compares, Protocol):
    """What is evaluated: an exported bundle, or a model still in training."""

    def pixels(self, batch: PixelBatch) -> Features: ...

    def texts(self, texts: Sequence[str]) -> EncodedTexts: ...

    def vectors(self, features: Features) -> Vectors: ...


@dataclass(frozen=True, eq=False)
class Direction:
    """What each query thinks of the whole gallery, what is right, and the item that each query is about."""

    scores: Float32[np.ndarray, "q g"]
    relevant: Bool[np.ndarray, "q g"]
    items: Int64[np.ndarray, " q"]


def encode(
    encoder: Encodes, views: UInt8[np.ndarray, "i v h w 3"], captions: Sequence[Sequence[str]]
) -> Observed:
    """Items whose views are pixels [i v h w 3] and whose captions are texts."""
    seen = np.concatenate([encoder.pixels(pixels) for pixels in views])
    said = encoder.texts([text for texts in captions for text in texts]).features
    nobody = bank(NOBODY, [0] * len(captions))
    return Observed(captions, text_bank(said, captions), nobody, bank(seen, [views.shape[1]] * len(views)))


def directions(encoder: Encodes, observed: Observed) -> dict[str, Direction]:
    """What training watches."""
    return {name: direction(encoder, observed, name, pool) for name, pool in STANDARD}


def direction(
    encoder: Encodes, observed: Observed, name: str, pool: Pooling, *, equal_texts: bool = False
) -> Direction:
    """One direction; with `equal_texts` an item is right if what asks is said of it, too."""
    queries, gallery = parties(observed, name)
    scores, columns = answered(encoder, queries, gallery, pool)
    return answerable(Direction(scores, right(observed, queries, columns, equal_texts), queries.owners))


def answerable(asked: Direction) -> Direction:
    """Without the queries that nothing in the gallery answers: the item lacks the side that is asked for."""
    some = asked.relevant.any(axis=1)
    return asked if some.all() else Direction(asked.scores[some], asked.relevant[some], asked.items[some])


def parties(observed: Observed, name: str) -> tuple[Bank, Bank]:
    """Who asks, and all observations that may answer."""
    asking, answering = name.split("_to_")
    if name == "image_to_shape" and not len(observed.image):
        return observed.shape.halves()
    if asking == answering:
        first, second = _asking(observed, answering, gallery=True).halves()
        return (first.pooled() if asking == "shape" else first), second
    return _asking(observed, asking), _asking(observed, answering, gallery=True)


def _asking(observed: Observed, kind: str, *, gallery: bool = False) -> Bank:
    if kind == "agg_text":
        return observed.text.pooled()
    if kind == "shape":
        return observed.shape if gallery else observed.shape.pooled()
    return observed.text if kind == "text" else observed.pictures


def answered(
    encoder: Encodes, queries: Bank, gallery: Bank, pool: Pooling
) -> tuple[Float32[np.ndarray, "q g"], Bank]:
    """Scores of all pairs, and what each column is."""
    columns = gallery.pooled() if pool == "mean" else gallery.first() if pool == "hero" else gallery
    scores = likeness(encoder, encoder.vectors(queries.features), encoder.vectors(columns.features))
    if pool != "max":
        return scores, columns
    best: Float32[np.ndarray, "q g"] = np.maximum.reduceat(scores, gallery.starts, axis=1)
    return best, Bank(gallery.features[gallery.starts], gallery.owners[gallery.starts])


def right(observed: Observed, queries: Bank, columns: Bank, equal_texts: bool) -> Bool[np.ndarray, "q g"]:
    """Which columns answer which query: those of its item, and with `equal_texts` of its texts."""
    mask: Bool[np.ndarray, "q g"] = queries.owners[:, None] == columns.owners[None, :]
    if not equal_texts:
        return mask
    said = observed.sayers
    if queries.said is not None and columns.said is not None:
        mask |= queries.said[:, None] == columns.said[None, :]
    elif columns.said is not None:
        mask |= said[columns.said][:, queries.owners].T
    elif queries.said is not None:
        mask |= said[queries.said][:, columns.owners]
    else:
        mask |= said[:, queries.owners].T @ said[:, columns.owners]
    return mask


def available(observed: Observed) -> list[Key]:
    """What can be asked of this set: every direction with its pools, without those that somebody lacks."""
    return [
        (name, pool) for name, pools in POOLS.items() for pool in pools if _possible(observed, name, pool)
    ]


def _possible(observed: Observed, name: str, pool: Pooling) -> bool:
    """Where views stand in for photos, pooled ones are the shape, and are asked for as that."""
    twice = name == "text_to_image" and pool != "each" and not len(observed.image)
    return not twice and all(map(len, parties(observed, name)))


def report(encoder: Encodes, observed: Observed) -> Mapping[str, Mapping[str, Any]]:
    """What training watches, in numbers."""
    return {name: numbers(asked) for name, asked in directions(encoder, observed).items()}


def numbers(direction: Direction) -> dict[str, Any]:
    """Recalls with 95 % bootstrap intervals, NDCG@5 and the median rank.

    Queries of one item are not independent: the intervals draw items, not queries.
    """
    found = ranks(direction.scores, direction.relevant)
    queries, gallery = direction.scores.shape
    told: dict[str, Any] = {"queries": queries, "gallery": gallery}
    for cut in CUTS:
        hits = recall_at_k(found, cut)
        values = (hits.mean(), *bootstrap(hits, groups=direction.items))
        told[f"R@{cut}"] = [round(float(value), 4) for value in values]
    told["NDCG@5"] = round(float(ndcg_at_k(direction.scores, direction.relevant, 5).mean()), 4)
    told["median_rank"] = median_rank(found)
    return told
