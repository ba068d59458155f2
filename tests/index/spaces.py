"""Plain numpy spaces, one for each way of comparing: a sphere, a Lorentz model with query signs, plain L2."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from multifold.types import Features, Metric, Side, Vector, Vectors


@dataclass(frozen=True)
class Sphere:
    """Unit vectors, inner product."""

    dim: int
    vector_id: str = "sphere"
    metric: ClassVar[Metric] = "ip"
    query_signs: ClassVar[Vector | None] = None
    sees: ClassVar[Mapping[Side, float]] = {}
    alike: ClassVar[Mapping[Side, float]] = {}

    def vectors(self, features: Features) -> Vectors:
        wide = features.astype(np.float64)
        return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12), np.float32)


@dataclass(frozen=True)
class Lorentz:
    """Tangent vectors at the root become points of the hyperboloid; time is last, negated in a query."""

    dim: int  # of an index vector: one more than a feature
    vector_id: str = "lorentz"
    metric: ClassVar[Metric] = "ip"
    sees: ClassVar[Mapping[Side, float]] = {}
    alike: ClassVar[Mapping[Side, float]] = {}

    @property
    def query_signs(self) -> Vector | None:
        return np.array([1] * (self.dim - 1) + [-1], np.float32)

    def vectors(self, features: Features) -> Vectors:
        wide = features.astype(np.float64)
        length = np.linalg.norm(wide, axis=1, keepdims=True)
        space = wide * np.where(length > 0, np.sinh(length) / np.maximum(length, 1e-12), 1)
        return np.asarray(
            np.concatenate([space, np.sqrt(1 + (space**2).sum(1, keepdims=True))], 1), np.float32
        )


@dataclass(frozen=True)
class Flat:
    """Features scaled by the root of their length, squared distance."""

    dim: int
    vector_id: str = "flat"
    metric: ClassVar[Metric] = "l2"
    query_signs: ClassVar[Vector | None] = None
    sees: ClassVar[Mapping[Side, float]] = {}
    alike: ClassVar[Mapping[Side, float]] = {}

    def vectors(self, features: Features) -> Vectors:
        return np.asarray(features / np.sqrt(self.dim), np.float32)


@dataclass(frozen=True)
class Unguarded(Flat):
    """Divides by the length without looking: zero has no place here."""

    def vectors(self, features: Features) -> Vectors:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(features / np.linalg.norm(features, axis=1, keepdims=True), np.float32)


Space = Sphere | Lorentz | Flat
FEATURE = 4
SPACE = Sphere(FEATURE)  # where one is enough
SPACES: tuple[Space, ...] = (SPACE, Lorentz(FEATURE + 1), Flat(FEATURE))
