"""The index score: how alike two index vectors are, higher being better.

Inner product: ⟨signs∘q, g⟩. L2: -‖q - g‖². The signs belong to the query side of the geometry.
"""

import numpy as np
from jaxtyping import Float32

from multifold.types import Metric, Vector, Vectors


def signed(queries: Vectors, query_signs: Vector | None) -> Vectors:
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
