"""What the index asks of others: a Space turns features into index vectors, an Engine finds vectors.

Scores are *index scores*, higher is better: `ip` is the dot product, `l2` is minus the squared distance.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float32, Int64

from multifold.errors import MultifoldError
from multifold.types import Features, Metric, Side, Vector, Vectors

Ids: TypeAlias = Int64[np.ndarray, " _"]
Paired: TypeAlias = Int64[np.ndarray, " b"]  # one id for each of b vectors
Ranked: TypeAlias = tuple[Float32[np.ndarray, "q k"], Int64[np.ndarray, "q k"]]
Found: TypeAlias = tuple[Float32[np.ndarray, " k"], Int64[np.ndarray, " k"]]
Block: TypeAlias = tuple[Paired, Vectors]
RowKind: TypeAlias = Literal["observation", "pooled"]
Segment: TypeAlias = tuple[Side, RowKind]

NOBODY = -1  # the id that pads an answer with fewer rows than were asked for


class EngineError(MultifoldError):
    """An engine was given rows or a file that it cannot use."""


@runtime_checkable
class Space(Protocol):
    """Where index vectors live: the map from features, and how vectors are compared there."""

    @property
    def vector_id(self) -> str:
        """Names all that decides the vectors; stamps a collection."""

    @property
    def dim(self) -> int:
        """Length of an index vector."""

    @property
    def metric(self) -> Metric:
        """How two index vectors are compared."""

    @property
    def query_signs(self) -> Vector | None:
        """What a query vector is multiplied by before it is compared; None leaves it as it is."""

    def vectors(self, features: Features) -> Vectors:
        """Index vectors, one for each feature, each independent of the others."""


@runtime_checkable
class Engine(Protocol):
    """Knows vectors, row ids and a candidate filter, not items.

    Searches may run beside each other and beside a change, and each sees one version; changes run one by one.
    Which rows are found may be approximate, their scores never are; ties go to the smaller id.
    """

    def add(self, ids: Paired, vectors: Vectors) -> None:
        """Add rows; an id that is already there is an EngineError, and nothing is added."""

    def remove(self, ids: Ids) -> None:
        """Remove rows; ids that are not there are ignored."""

    def search(
        self, queries: Vectors, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> Ranked:
        """The best rows of each query, best first, padded with -inf and NOBODY; `exact` looks at all rows."""

    def range(self, query: Vector, threshold: float, allowed: Ids | None = None) -> Found:
        """Every row that scores `threshold` or more, best first."""

    def blocks(self, allowed: Ids | None = None) -> Iterator[Block]:
        """Every row, some at a time."""

    def count(self) -> int:
        """How many rows there are."""

    def sample(self, count: int) -> Vectors:
        """Up to so many of the vectors, drawn evenly."""

    def save(self, path: Path) -> None:
        """Write the rows to a file, durably and all at once."""

    def load(self, path: Path) -> None:
        """Replace the rows by those of a file; a damaged or foreign file is an EngineError."""

    def close(self) -> None:
        """Let go of memory and devices."""
