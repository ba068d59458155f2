"""Retrieval numbers of an encoder, by the vectors that an index would hold.

text → shape: every caption asks, the items' mean-pooled views answer, one is right.
shape → text: every item's mean-pooled views ask, all captions answer, any of its own is right.
text → image: every caption asks, all views of all items answer, any view of the right item counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8

from multifold.encoder import EncodedTexts
from multifold.metrics import bootstrap, median_rank, ndcg_at_k, ranks, recall_at_k
from multifold.scores import index_scores, signed
from multifold.types import Features, Metric, PixelBatch, Vector, Vectors, pool_mean

CUTS = (1, 5, 10)


@runtime_checkable
class Encodes(Protocol):
    """What is evaluated: an exported bundle, or a model still in training."""

    @property
    def metric(self) -> Metric: ...

    @property
    def query_signs(self) -> Vector | None: ...

    def pixels(self, batch: PixelBatch) -> Features: ...

    def texts(self, texts: Sequence[str]) -> EncodedTexts: ...

    def vectors(self, features: Features) -> Vectors: ...


@dataclass(frozen=True)
class Labelled:
    """Features of a test set: the views of each item, all captions, and whose each caption is."""

    views: Float32[np.ndarray, "i v n"]
    texts: Float32[np.ndarray, "t n"]
    owners: Int64[np.ndarray, " t"]

    @cached_property
    def shapes(self) -> Float32[np.ndarray, "i n"]:
        """The mean of each item's views."""
        return np.stack([pool_mean(views) for views in self.views])


@dataclass(frozen=True)
class Direction:
    """What each query thinks of the whole gallery, what is right, and the item that each query is about."""

    scores: Float32[np.ndarray, "q g"]
    relevant: Bool[np.ndarray, "q g"]
    items: Int64[np.ndarray, " q"]


def encode(
    encoder: Encodes, views: UInt8[np.ndarray, "i v h w 3"], captions: Sequence[Sequence[str]]
) -> Labelled:
    """Features of items whose views are pixels [i v h w 3] and whose captions are texts."""
    seen = np.stack([encoder.pixels(pixels) for pixels in views])
    owners = np.repeat(np.arange(len(captions)), [len(texts) for texts in captions])
    texts = encoder.texts([text for texts in captions for text in texts]).features
    return Labelled(seen, texts, owners)


def directions(encoder: Encodes, labelled: Labelled) -> dict[str, Direction]:
    """Everything that is asked of a test set."""
    items = np.arange(len(labelled.views))
    shapes, texts = encoder.vectors(labelled.shapes), encoder.vectors(labelled.texts)
    views = encoder.vectors(labelled.views.reshape(-1, labelled.views.shape[2]))
    view_items = np.repeat(items, labelled.views.shape[1])

    def ask(
        queries: Float32[np.ndarray, "q d"],
        asked: np.ndarray,
        gallery: Float32[np.ndarray, "g d"],
        known: np.ndarray,
    ) -> Direction:
        scores = index_scores(signed(queries, encoder.query_signs), gallery, encoder.metric)
        return Direction(scores, asked[:, None] == known[None, :], asked)

    return {
        "text_to_shape": ask(texts, labelled.owners, shapes, items),
        "shape_to_text": ask(shapes, items, texts, labelled.owners),
        "text_to_image": ask(texts, labelled.owners, views, view_items),
    }


def report(encoder: Encodes, labelled: Labelled) -> Mapping[str, Mapping[str, Any]]:
    """Every direction's recalls with 95 % bootstrap intervals, NDCG@5 and the median rank."""
    return {name: _numbers(direction) for name, direction in directions(encoder, labelled).items()}


def _numbers(direction: Direction) -> dict[str, Any]:
    """Queries of one item are not independent: the intervals draw items, not queries."""
    found = ranks(direction.scores, direction.relevant)
    queries, gallery = direction.scores.shape
    numbers: dict[str, Any] = {"queries": queries, "gallery": gallery}
    for cut in CUTS:
        hits = recall_at_k(found, cut)
        values = (hits.mean(), *bootstrap(hits, groups=direction.items))
        numbers[f"R@{cut}"] = [round(float(value), 4) for value in values]
    numbers["NDCG@5"] = round(float(ndcg_at_k(direction.scores, direction.relevant, 5).mean()), 4)
    numbers["median_rank"] = median_rank(found)
    return numbers
