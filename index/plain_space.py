"""The space of embeddings that users bring: features are index vectors, with no encoder behind them.

Its `vector_id` describes it completely ("plain-cosine-768"), so a collection opens without a bundle.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np

from multifold.errors import MultifoldError
from multifold.types import Distance, Features, Metric, Side, Vector, Vectors

PLAIN_METRICS: tuple[Distance, ...] = get_args(Distance)
NAME = re.compile(rf"plain-({'|'.join(PLAIN_METRICS)})-([1-9][0-9]{{0,5}})")


class PlainSpaceError(MultifoldError):
    """No such space exists."""


@dataclass(frozen=True)
class PlainSpace:
    """Vectors of `dim` numbers; for `cosine` they are brought to length one."""

    comparison: Distance
    dim: int

    def __post_init__(self) -> None:
        if NAME.fullmatch(self.vector_id) is None:
            ways = f"compare by {', '.join(PLAIN_METRICS)}, and with 1 to 999,999 numbers"
            raise PlainSpaceError(f"There is no space {self.vector_id}: {ways}.")

    @property
    def vector_id(self) -> str:
        return f"plain-{self.comparison}-{self.dim}"

    @property
    def metric(self) -> Metric:
        return "l2" if self.comparison == "l2" else "ip"

    @property
    def query_signs(self) -> Vector | None:
        return None

    @property
    def sees(self) -> Mapping[Side, float]:
        return {}

    @property
    def alike(self) -> Mapping[Side, float]:
        return {}

    def vectors(self, features: Features) -> Vectors:
        """Index vectors; a zero has no direction, and is not usable by cosine."""
        if self.comparison != "cosine":
            return features
        wide = features.astype(np.float64)
        with np.errstate(invalid="ignore"):
            return np.asarray(wide / np.linalg.norm(wide, axis=1, keepdims=True), np.float32)


def parse_plain_space(vector_id: str) -> PlainSpace | None:
    """The space that a name describes; None if it is an encoder's."""
    parts = NAME.fullmatch(vector_id)
    return None if parts is None else PlainSpace(parts[1], int(parts[2]))  # type: ignore[arg-type]
