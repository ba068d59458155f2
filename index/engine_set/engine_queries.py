"""Queries beyond one vector: a mix of vectors, a scan of every row, and rescoring.

With W = Σ wᵢ and c = Σ wᵢqᵢ / W, the score of a row g for a mix is:

- `ip`: ⟨Σ wᵢqᵢ, g⟩, one query like any other;
- `l2`, W > 0: W·(-‖g - c‖²) + W‖c‖² - Σ wᵢ‖qᵢ‖², one query whose scores are stretched and shifted;
- `l2` otherwise: 2⟨g, Σ wᵢqᵢ⟩ - W‖g‖² - Σ wᵢ‖qᵢ‖², for which every row is scored. That is done too where W
  is small beside Σ |wᵢ|: c is so far away then that float32 scores would not tell rows apart.

The best `RESCORE_DEPTH` rows by index score are put in the order of the geometry's own similarity, then the
next, and so on: every page of a search sees the same order. An exact search orders all rows. The similarity
to a mix is the weighted sum of those to its parts.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from index.contracts import Ids, IndexEngine, RowRanking, RowScores, Space
from index.engine_set.engine_set import EngineQuery, VectorQuery
from index.engines import scoring
from index.engines.exact_engine import score_blocks
from multifold.scores import VectorScorer
from multifold.types import Metric, Mix, Vector, Vectors

BALANCED = 0.1  # W beside Σ |wᵢ|


@dataclass(frozen=True, eq=False)
class ScanQuery:
    """⟨direction, g⟩ - weight·‖g‖² + shift, of every row: no query vector has such scores."""

    direction: Float64[np.ndarray, " d"]
    weight: float
    shift: float

    def search(
        self,
        engine: IndexEngine,
        limit: int,
        allowed: Ids | None = None,
        *,
        exact: bool = False,  # noqa: ARG002 (it always is)
    ) -> RowRanking:
        """The best rows with their scores, best first; ties go to the smaller id."""
        scores, rows = np.empty(0), np.empty(0, np.int64)
        for ids, vectors in engine.blocks(allowed):
            floor = scores[-1] if len(scores) == limit else -np.inf
            near = self._near(vectors, limit, float(floor))
            scores = np.concatenate([scores, self._scores(vectors[near])])
            rows = np.concatenate([rows, ids[near]])
            order = np.lexsort((rows, -scores))[:limit]
            scores, rows = scores[order], rows[order]
        return (scores + self.shift).astype(np.float32), rows

    def scores(self, engine: IndexEngine, ids: Ids) -> RowScores:
        """The score of each of these ids, which rise; NaN where there is no such row."""
        return score_blocks(engine.blocks(ids), ids, lambda vectors: self._scores(vectors) + self.shift)

    def _near(self, vectors: Vectors, limit: int, floor: float) -> Ids:
        """Rows that may be among the best, by float32 scores and how far these can be off."""
        squares = np.einsum("bd,bd->b", vectors, vectors)
        fast = vectors @ self.direction.astype(np.float32) - np.float32(self.weight) * squares
        longest = float(np.sqrt(squares.max(initial=0)))
        length = float(np.linalg.norm(self.direction))
        slack = scoring.product_slack(longest * (length + abs(self.weight) * longest), len(self.direction))
        if len(fast) > limit:
            floor = max(floor, float(np.partition(fast, len(fast) - limit)[len(fast) - limit]) - slack)
        return np.flatnonzero(fast >= floor - slack)

    def _scores(self, vectors: Vectors) -> Float64[np.ndarray, " b"]:
        wide = vectors.astype(np.float64)
        scores: Float64[np.ndarray, " b"] = scoring.pair_products(wide, self.direction[None])
        return scores - self.weight * scoring.pair_products(wide, wide)


def vector_or_scan(metric: Metric, mix: Mix, signs: Vector | None) -> VectorQuery | ScanQuery:
    """What a mix asks the engines; the signs of the query side are applied."""
    queries = np.stack([vector for vector, _ in mix.parts]).astype(np.float64)
    if signs is not None:
        queries *= signs
    weights = np.array([weight for _, weight in mix.parts], np.float64)
    total, direction = weights.sum(), weights @ queries
    if metric == "ip":
        return VectorQuery(direction.astype(np.float32))
    own = float(weights @ np.square(queries).sum(axis=1))
    if total <= BALANCED * np.abs(weights).sum():
        return ScanQuery(2 * direction, float(total), -own)
    centre = direction / total
    return VectorQuery(centre.astype(np.float32), float(total), float(total * np.square(centre).sum()) - own)


RESCORE_DEPTH = 1024


@dataclass(frozen=True, eq=False)
class RescoredQuery:
    """A query whose best rows are compared again, part by part."""

    candidates: VectorQuery | ScanQuery
    parts: tuple[tuple[Vector, float], ...]  # index vectors, without signs
    space: VectorScorer

    def search(
        self, engine: IndexEngine, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> RowRanking:
        """The best rows with their similarities, best first; ties go to the smaller id."""
        most = engine.count() if allowed is None else min(engine.count(), len(allowed))
        depth = max(1, most) if exact else RESCORE_DEPTH
        reach = min(most, -(-limit // depth) * depth)
        _, rows = self.candidates.search(engine, reach, allowed, exact=exact)
        scores = np.full(len(rows), -np.inf)  # which stays for a row that was removed meanwhile
        rising = np.argsort(rows)
        for ids, vectors in engine.blocks(rows[rising]):
            scores[rising[np.searchsorted(rows, ids, sorter=rising)]] = self._compare(vectors)
        order = np.lexsort((rows, -scores, np.arange(len(rows)) // depth))[:limit]
        return scores[order].astype(np.float32), rows[order]

    def scores(self, engine: IndexEngine, ids: Ids) -> RowScores:
        """The score of each of these ids, which rise; NaN where there is no such row."""
        return score_blocks(engine.blocks(ids), ids, self._compare)

    def _compare(self, vectors: Vectors) -> Float64[np.ndarray, " b"]:
        scores = np.zeros(len(vectors))
        for part, weight in self.parts:
            scores += weight * self.space.rescore(part[None], vectors[None])[0].astype(np.float64)
        return scores


def rescored_query(
    space: VectorScorer, candidates: VectorQuery | ScanQuery, vector: Vector | Mix
) -> RescoredQuery:
    """A query whose best rows are ordered by the geometry's own similarity."""
    return RescoredQuery(candidates, vector.parts if isinstance(vector, Mix) else ((vector, 1.0),), space)


def engine_query(space: Space, vector: Vector | Mix) -> EngineQuery:
    """What to ask the engines of a space; the signs of the query side are applied."""
    signs = space.query_signs
    if isinstance(vector, Mix):
        query: VectorQuery | ScanQuery = vector_or_scan(space.metric, vector, signs)
    else:
        query = VectorQuery(vector if signs is None else vector * signs)
    rescores = getattr(space, "rescores", False)  # asked first: it takes a part of the time of the other
    if rescores and isinstance(space, VectorScorer):
        return rescored_query(space, query, vector)
    return query
