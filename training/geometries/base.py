"""The contract of a geometry: how features are compared in training, and what an index sees of it.

A *feature* is what a tower emits, an *index vector* what an index stores. Every similarity is a function of
index vectors, so that search and training cannot drift apart: similarity(q, g) = compare(φ(q), φ(g)).
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from multifold.errors import MultifoldError
from multifold.types import Metric
from training.geometries.numerics import precise, without_autocast
from training.geometries.temperature import RawTemperature, Scale, Temperature
from training.geometries.turn import Turn


class Geometry(nn.Module, ABC):
    """A similarity of features, its temperature, and the index vectors that rank alike."""

    name: str
    metric: Metric = "ip"
    start: Scale = Scale()  # of the temperature, where nothing else is asked for

    def __init__(self, feature_dim: int, dim: int, temperature: Temperature | RawTemperature) -> None:
        super().__init__()
        self.feature_dim = feature_dim
        self.dim = dim  # of an index vector
        self.temperature = temperature
        self.turn: Turn | None = None  # of index vectors that can be cut

    @property
    def query_signs(self) -> Float[Tensor, " d"] | None:
        """What an index vector is multiplied with on the query side, if anything."""
        return None

    @abstractmethod
    def index_vectors(self, features: Float[Tensor, "b n"]) -> Float[Tensor, "b d"]:
        """Vectors that a flat index under `metric` ranks as `similarity` does."""

    def compare(self, query: Float[Tensor, "q d"], gallery: Float[Tensor, "g d"]) -> Float[Tensor, "q g"]:
        """The similarity of what these index vectors stand for."""
        return query @ gallery.T

    def similarity(self, query: Float[Tensor, "q n"], gallery: Float[Tensor, "g n"]) -> Float[Tensor, "q g"]:
        """Likeness of features as the towers emit them, without temperature; never below float32."""
        with without_autocast(query):
            return self.compare(self.index_vectors(query), self.index_vectors(gallery))

    def logits(self, query: Float[Tensor, "q n"], gallery: Float[Tensor, "g n"]) -> Float[Tensor, "q g"]:
        """Similarity under the temperature."""
        scaled: Tensor = self.similarity(query, gallery) * self.temperature()
        return scaled

    def clamp(self) -> None:
        """Bring learned numbers back between their bounds; the loop calls it after every step."""
        self.temperature.clamp()

    def nest(self) -> Turn:
        """From now on turn index vectors, so that they can be cut."""
        raise MultifoldError(
            f"[loss] nested needs a geometry whose vectors can be cut, clip or elliptic, not {self.name}"
        )

    def resample(self, generator: torch.Generator) -> None:
        """Draw what is random anew, if anything; the loop calls it before every batch, alike on all ranks."""

    def root(self, features: Float[Tensor, "b n"]) -> Float[Tensor, " n"]:
        """The feature of everything and nothing in particular, where traversals end: the mean of these."""
        return self.index_vectors(features).mean(0)

    def learned(self) -> dict[str, float]:
        """The numbers that training has found, for logs and descriptions."""
        return {"scale": self.temperature().item()}

    def stated(self) -> dict[str, float | int]:
        """The numbers that a bundle states: those that were found, and those that its readers need."""
        return {**self.learned()}


class EntailmentGeometry(ABC):
    """A geometry whose general things lie near the origin: each entails what is in the cone behind it."""

    def root(self, features: Float[Tensor, "b n"]) -> Float[Tensor, " n"]:
        """The origin entails everything."""
        return torch.zeros_like(precise(features)[0])

    @abstractmethod
    def entail(
        self, general: Float[Tensor, "p n"], specific: Float[Tensor, "s n"], k: float | Float[Tensor, ""]
    ) -> Float[Tensor, "p s"]:
        """How far outside each general feature's cone each specific one lies, in radians; ≤ 0 is inside."""


class RescoringGeometry(ABC):
    """A geometry that no index searches exactly: candidates come by `metric`, their order from here."""

    @abstractmethod
    def rescore(self, query: Float[Tensor, "q d"], given: Float[Tensor, "q k d"]) -> Float[Tensor, "q k"]:
        """The similarity of each query's index vector to those of the candidates given."""
