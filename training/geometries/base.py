"""The contract of a geometry: how features are compared in training, and what an index sees of it."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from multifold.types import Metric


class Geometry(nn.Module, ABC):
    """A similarity of features, its temperature, and the index vectors that rank alike."""

    name: str
    metric: Metric
    dim: int  # of an index vector

    @property
    def query_signs(self) -> Float[Tensor, " d"] | None:
        """What an index vector is multiplied with on the query side, if anything."""
        return None

    @abstractmethod
    def similarity(self, query: Float[Tensor, "q n"], gallery: Float[Tensor, "g n"]) -> Float[Tensor, "q g"]:
        """Likeness of features as the towers emit them, without temperature."""

    @abstractmethod
    def logits(self, query: Float[Tensor, "q n"], gallery: Float[Tensor, "g n"]) -> Float[Tensor, "q g"]:
        """Similarity under the learned temperature."""

    @abstractmethod
    def index_vectors(self, features: Float[Tensor, "b n"]) -> Float[Tensor, "b d"]:
        """Vectors that a flat index under `metric` ranks as `similarity` does."""


class Temperature(nn.Module):
    """A learned scale exp(t), t kept in [low, high]."""

    def __init__(self, initial: float, low: float, high: float) -> None:
        super().__init__()
        self.low, self.high = low, high
        self.log_scale = nn.Parameter(torch.tensor(initial))

    def forward(self, similarity: Float[Tensor, "q g"]) -> Float[Tensor, "q g"]:
        return similarity * self.log_scale.clamp(self.low, self.high).exp()
