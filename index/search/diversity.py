"""Maximal marginal relevance: look-alikes of what stands above give way to other good hits.

Each next hit is the one with the most (1 - d)·relevance - d·likeness, for the diversity d. Relevance is the
evidence, from 0 for the worst of the best hits to 1. Likeness is that to the hit above that is most alike,
from 0 for what two of these hits usually have in common to 1 for the same. Only the best hits are moved,
always the same ones, so pages continue one another.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Float64

from index.contracts import Space
from index.engine_set.engine_set import EngineSet
from index.legs.examples import pooled_vectors
from multifold.scores import VectorScorer, apply_signs, index_scores, similarities
from multifold.types import SIDES

MOVED = 100  # of the best hits


def diversify(
    evidence: Float64[np.ndarray, " n"], diversity: float, likeness: Float64[np.ndarray, "n n"]
) -> list[int]:
    """The order in which hits are shown: the best first again."""
    if not len(evidence):
        return []
    relevance = (evidence - evidence.min()) / max(float(np.ptp(evidence)), 1e-9)
    order: list[int] = []
    nearest, left = np.zeros(len(evidence)), np.ones(len(evidence), np.bool_)
    for _ in evidence:
        worth = np.where(left, (1 - diversity) * relevance - diversity * nearest, -np.inf)
        order.append(int(worth.argmax()))
        left[order[-1]] = False
        nearest = np.maximum(nearest, likeness[order[-1]])
    return order


def likeness_of(space: Space, engines: EngineSet, editions: Sequence[int]) -> Float64[np.ndarray, "n n"]:
    """How alike items are, from 0 for the usual to 1 for the same: the mean of the sides that both have."""
    total, counts = (np.zeros((len(editions), len(editions))) for _ in range(2))
    for side in SIDES:
        vectors = pooled_vectors(engines, side, editions)
        rows = np.array([place for place, edition in enumerate(editions) if edition in vectors], np.int64)
        if len(rows) < 2:
            continue
        stack = np.stack([vectors[editions[row]] for row in rows])
        scores = _scores(space, stack)
        same, usual = np.diag(scores), float(np.median(scores[~np.eye(len(rows), dtype=bool)]))
        width = np.maximum(np.minimum(same[:, None], same[None, :]) - usual, 1e-9)
        pairs = np.ix_(rows, rows)
        total[pairs] += np.clip((scores - usual) / width, 0, 1)
        counts[pairs] += 1
    likeness: Float64[np.ndarray, "n n"] = total / np.maximum(counts, 1)
    return likeness


def _scores(space: Space, vectors: Float32[np.ndarray, "n d"]) -> Float64[np.ndarray, "n n"]:
    if isinstance(space, VectorScorer):
        return similarities(space, vectors, vectors).astype(np.float64)
    return index_scores(apply_signs(vectors, space.query_signs), vectors, space.metric).astype(np.float64)
