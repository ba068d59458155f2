"""The index score: how alike two index vectors are, higher being better.

Inner product: ⟨signs∘q, g⟩. L2: -‖q - g‖². The signs belong to the query side of the geometry.
A geometry that no index has compares by a similarity of its own; that is then what a search tells.
"""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

from multifold.types import Metric, Vector, Vectors


@runtime_checkable
class VectorScorer(Protocol):
    """What knows how its index vectors are compared."""

    @property
    def metric(self) -> Metric: ...

    @property
    def query_signs(self) -> Vector | None: ...

    @property
    def rescores(self) -> bool: ...

    def rescore(
        self, query: Vectors, candidates: Float32[np.ndarray, "q k d"]
    ) -> Float32[np.ndarray, "q k"]: ...


def similarities(
    encoder: VectorScorer, queries: Float32[np.ndarray, "q d"], gallery: Float32[np.ndarray, "g d"]
) -> Float32[np.ndarray, "q g"]:
    """What a search tells of every pair of index vectors; the queries have no signs yet."""
    if not encoder.rescores:
        return index_scores(apply_signs(queries, encoder.query_signs), gallery, encoder.metric)
    rows = [encoder.rescore(query[None], gallery[None]) for query in queries]
    return np.concatenate(rows) if rows else np.empty((0, len(gallery)), np.float32)


def shorten(vectors: Vectors, length: int) -> Float32[np.ndarray, "b k"]:
    """The first numbers of index vectors, as unit vectors."""
    cut = vectors[:, :length]
    lengths = np.maximum(np.linalg.norm(cut, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return np.asarray(cut / lengths, np.float32)


def apply_signs(queries: Vectors, query_signs: Vector | None) -> Vectors:
    """Queries as an engine wants them: the geometry's signs applied."""
    return queries if query_signs is None else queries * query_signs


def index_scores(
    queries: Float32[np.ndarray, "q d"], gallery: Float32[np.ndarray, "g d"], metric: Metric
) -> Float32[np.ndarray, "q g"]:
    """The score of every pair; signs must have been applied to the queries."""
    products: Float32[np.ndarray, "q g"] = queries @ gallery.T
    if metric == "ip":
        return products
    lengths = np.square(gallery).sum(axis=1)[None, :] + np.square(queries).sum(axis=1)[:, None]
    scores: Float32[np.ndarray, "q g"] = np.minimum(2 * products - lengths, 0)
    return scores
