"""Mixed queries, in index-score units: the score of g is Σ wᵢ·score(qᵢ, g), for weights of any sign.

With W = Σ wᵢ and c = Σ wᵢqᵢ / W:

- `ip`: it is ⟨Σ wᵢqᵢ, g⟩, one query like any other;
- `l2`, W > 0: it is W·(-‖g - c‖²) + W‖c‖² - Σ wᵢ‖qᵢ‖², one query whose scores are stretched and shifted;
- `l2` otherwise: it is 2⟨g, Σ wᵢqᵢ⟩ - W‖g‖² - Σ wᵢ‖qᵢ‖², for which every row is looked at. That is
  done too where W is small beside Σ |wᵢ|: c lies far out there, and float32 scores would tell no rows apart.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from index.base import NOBODY, Engine, Found, Ids
from index.engines import scoring
from multifold.types import Metric, Mix, Vector, Vectors

BALANCED = 0.1  # W beside Σ |wᵢ|


@dataclass(frozen=True, eq=False)
class Straight:
    """A vector whose scores may be stretched and shifted."""

    vector: Vector
    stretch: float = 1.0
    shift: float = 0.0

    def search(self, engine: Engine, limit: int, allowed: Ids | None = None, *, exact: bool = False) -> Found:
        """The best rows with their scores, best first."""
        scores, rows = engine.search(self.vector[None], limit, allowed, exact=exact)
        found = rows[0] != NOBODY
        stretched = scores[0][found].astype(np.float64) * self.stretch + self.shift
        return stretched.astype(np.float32), rows[0][found]


@dataclass(frozen=True, eq=False)
class Scan:
    """⟨direction, g⟩ - weight·‖g‖² + shift, of every row: no query vector has such scores."""

    direction: Float64[np.ndarray, " d"]
    weight: float
    shift: float

    def search(
        self,
        engine: Engine,
        limit: int,
        allowed: Ids | None = None,
        *,
        exact: bool = False,  # noqa: ARG002 (it always is)
    ) -> Found:
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

    def _near(self, vectors: Vectors, limit: int, floor: float) -> Ids:
        """Rows that may be among the best, by float32 scores and how far these can be off."""
        squares = np.einsum("bd,bd->b", vectors, vectors)
        fast = vectors @ self.direction.astype(np.float32) - np.float32(self.weight) * squares
        longest = float(np.sqrt(squares.max(initial=0)))
        length = float(np.linalg.norm(self.direction))
        slack = scoring.slack_of(longest * (length + abs(self.weight) * longest), len(self.direction))
        if len(fast) > limit:
            floor = max(floor, float(np.partition(fast, len(fast) - limit)[len(fast) - limit]) - slack)
        return np.flatnonzero(fast >= floor - slack)

    def _scores(self, vectors: Vectors) -> Float64[np.ndarray, " b"]:
        wide = vectors.astype(np.float64)
        scores: Float64[np.ndarray, " b"] = scoring.sums(wide, self.direction[None])
        return scores - self.weight * scoring.sums(wide, wide)


def question(metric: Metric, asked: Vector | Mix, signs: Vector | None) -> Straight | Scan:
    """What to ask an engine; the signs of the query side are applied."""
    if not isinstance(asked, Mix):
        return Straight(asked if signs is None else asked * signs)
    queries = np.stack([vector for vector, _ in asked.parts]).astype(np.float64)
    if signs is not None:
        queries *= signs
    weights = np.array([weight for _, weight in asked.parts], np.float64)
    total, direction = weights.sum(), weights @ queries
    if metric == "ip":
        return Straight(direction.astype(np.float32))
    own = float(weights @ np.square(queries).sum(axis=1))
    if total <= BALANCED * np.abs(weights).sum():
        return Scan(2 * direction, float(total), -own)
    centre = direction / total
    return Straight(centre.astype(np.float32), float(total), float(total * np.square(centre).sum()) - own)
