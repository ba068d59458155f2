"""From index scores to L2, where graphs and cells are at home. Pure.

-‖q̂ - ĝ‖² ranks the rows as the index score does:

- `l2`: q̂ = q, ĝ = g;
- `ip`, all g of one length: ‖q - g‖² = ‖q‖² + ‖g‖² - 2⟨q, g⟩, so q̂ = q, ĝ = g as well;
- `ip`, lengths up to M: ĝ = [g ; √(M² - ‖g‖²)] has the length M, and q̂ = [q ; 0].

For the inner product q̂ is brought to the length M, which changes no ranking and keeps float32 exact enough.
Zeros fill both up to a multiple of 16, where the vector units of every type take their fast road.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from multifold.types import Metric, Vectors

MULTIPLE = 16
TINIEST = np.float32(1e-20)  # what a query of no length is divided by
EVEN = 1e-5  # lengths whose spread is within this share of the longest count as one length

ReducedVectors = Float32[np.ndarray, "b w"]


@dataclass(frozen=True)
class L2Reduction:
    """How vectors of one segment become vectors for L2."""

    dim: int
    reach: float | None  # M, the length that all queries are brought to; None: queries stay as they are
    lifted: bool  # whether rows get √(M² - ‖g‖²) appended

    @property
    def width(self) -> int:
        """Length of a reduced vector."""
        return -(-(self.dim + self.lifted) // MULTIPLE) * MULTIPLE

    def fits(self, gallery_lengths: Float32[np.ndarray, " g"]) -> bool:
        """Whether rows of these lengths can be reduced as those are that this was made for."""
        if self.reach is None:
            return True
        longest, shortest = _span(gallery_lengths)
        if self.lifted:
            return longest <= self.reach
        return (1 - EVEN) * self.reach <= shortest and longest <= (1 + EVEN) * self.reach

    def gallery(self, vectors: Vectors) -> ReducedVectors:
        """Rows no longer than the reach, reduced."""
        reduced = self._padded(vectors)
        if self.lifted and self.reach is not None:
            squares = np.einsum("bd,bd->b", vectors, vectors, dtype=np.float64)
            reduced[:, self.dim] = np.sqrt(np.maximum(self.reach**2 - squares, 0))
        return reduced

    def queries(self, vectors: Vectors) -> ReducedVectors:
        """Queries, reduced."""
        if self.reach is not None:
            own = np.sqrt(np.einsum("bd,bd->b", vectors, vectors))
            vectors = vectors * (np.float32(self.reach) / np.maximum(own, TINIEST))[:, None]
        return vectors if self.width == self.dim else self._padded(vectors)

    def _padded(self, vectors: Vectors) -> ReducedVectors:
        reduced = np.zeros((len(vectors), self.width), np.float32)
        reduced[:, : self.dim] = vectors
        return reduced


def reduction_for(metric: Metric, dim: int, gallery_lengths: Float32[np.ndarray, " g"]) -> L2Reduction:
    """The reduction that these rows need."""
    if metric == "l2":
        return L2Reduction(dim, None, lifted=False)
    longest, shortest = _span(gallery_lengths)
    return L2Reduction(dim, longest or 1.0, lifted=longest - shortest > EVEN * longest)


def _span(gallery_lengths: Float32[np.ndarray, " g"]) -> tuple[float, float]:
    """The longest and the shortest."""
    return float(gallery_lengths.max(initial=0.0)), float(gallery_lengths.min(initial=np.inf))
