"""Spaces whose geometry compares as no engine does: candidates come by index score, their order from it.

The best `DEPTH` rows by index score are put in the order of the geometry's own similarity, then the next
`DEPTH`, and so on: every page of a search sees the same order. A search that looks at every row orders them
all. The similarity to a mix is the weighted sum of those to its parts.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64

from index import mixing
from index.base import Engine, Found, Ids, Space
from index.mixing import Scan, Straight
from multifold.scores import Compares
from multifold.types import Mix, Vector, Vectors

DEPTH = 1024


@dataclass(frozen=True, eq=False)
class Rescored:
    """A question whose best rows are compared anew, part by part."""

    candidates: Straight | Scan
    parts: tuple[tuple[Vector, float], ...]  # index vectors, without signs
    space: Compares

    def search(self, engine: Engine, limit: int, allowed: Ids | None = None, *, exact: bool = False) -> Found:
        """The best rows with their similarities, best first; ties go to the smaller id."""
        most = engine.count() if allowed is None else min(engine.count(), len(allowed))
        depth = max(1, most) if exact else DEPTH
        reach = min(most, -(-limit // depth) * depth)
        _, rows = self.candidates.search(engine, reach, allowed, exact=exact)
        scores = self._similarities(engine, rows)
        order = np.lexsort((rows, -scores, np.arange(len(rows)) // depth))[:limit]
        return scores[order].astype(np.float32), rows[order]

    def _similarities(self, engine: Engine, rows: Ids) -> Float64[np.ndarray, " k"]:
        """Of each of these rows; a row that has gone meanwhile is like nothing."""
        scores = np.full(len(rows), -np.inf)
        order = np.argsort(rows)
        for ids, vectors in engine.blocks(rows[order]):
            scores[order[np.searchsorted(rows, ids, sorter=order)]] = self._of(vectors)
        return scores

    def _of(self, vectors: Vectors) -> Float64[np.ndarray, " b"]:
        scores = np.zeros(len(vectors))
        for part, weight in self.parts:
            scores += weight * self.space.rescore(part[None], vectors[None])[0].astype(np.float64)
        return scores


Question: TypeAlias = Straight | Scan | Rescored


def question(space: Space, asked: Vector | Mix) -> Question:
    """What to ask the engines of a space."""
    candidates = mixing.question(space.metric, asked, space.query_signs)
    if not (isinstance(space, Compares) and space.rescores):
        return candidates
    return Rescored(candidates, asked.parts if isinstance(asked, Mix) else ((asked, 1.0),), space)
