"""Retrieval numbers of a bundle, by the vectors that an index would hold.

text → shape: every caption asks, the items' mean-pooled views answer, one is right.
shape → text: every item's mean-pooled views ask, all captions answer, any of its own is right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8

from multifold.encoder import Encoder
from multifold.metrics import bootstrap, median_rank, ndcg_at_k, ranks, recall_at_k
from multifold.scores import index_scores, signed
from multifold.types import pool_mean

CUTS = (1, 5, 10)


@dataclass(frozen=True)
class Labelled:
    """Features of a test set: one row a shape, one row a caption, and whose each caption is."""

    shapes: Float32[np.ndarray, "i n"]  # the mean of each item's views
    texts: Float32[np.ndarray, "t n"]
    owners: Int64[np.ndarray, " t"]  # for each text, the row of its shape


def encode(
    encoder: Encoder, views: UInt8[np.ndarray, "i v h w 3"], captions: Sequence[Sequence[str]]
) -> Labelled:
    """Features of items whose views are pixels [i v h w 3] and whose captions are texts."""
    shapes = np.stack([pool_mean(encoder.pixels(pixels)) for pixels in views])
    owners = np.repeat(np.arange(len(captions)), [len(texts) for texts in captions])
    texts = encoder.texts([text for texts in captions for text in texts]).features
    return Labelled(shapes, texts, owners)


def report(encoder: Encoder, labelled: Labelled) -> Mapping[str, Mapping[str, Any]]:
    """Both directions' recalls with 95 % bootstrap intervals, NDCG@5 and the median rank."""
    shapes, texts = encoder.vectors(labelled.shapes), encoder.vectors(labelled.texts)
    relevant = labelled.owners[:, None] == np.arange(len(shapes))[None, :]
    return {
        "text_to_shape": _direction(_scores(encoder, texts, shapes), relevant, labelled.owners),
        "shape_to_text": _direction(_scores(encoder, shapes, texts), relevant.T, np.arange(len(shapes))),
    }


def _scores(
    encoder: Encoder, queries: Float32[np.ndarray, "q d"], gallery: Float32[np.ndarray, "g d"]
) -> Float32[np.ndarray, "q g"]:
    return index_scores(signed(queries, encoder.query_signs), gallery, encoder.metric)


def _direction(
    scores: Float32[np.ndarray, "q g"], relevant: Bool[np.ndarray, "q g"], groups: Int64[np.ndarray, " q"]
) -> dict[str, Any]:
    """Queries of one group are about one item: the intervals draw items, not queries."""
    found = ranks(scores, relevant)
    numbers: dict[str, Any] = {"queries": scores.shape[0], "gallery": scores.shape[1]}
    for cut in CUTS:
        hits = recall_at_k(found, cut)
        values = (hits.mean(), *bootstrap(hits, groups=groups))
        numbers[f"R@{cut}"] = [round(float(value), 4) for value in values]
    numbers["NDCG@5"] = round(float(ndcg_at_k(scores, relevant, 5).mean()), 4)
    numbers["median_rank"] = median_rank(found)
    return numbers
