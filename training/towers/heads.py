"""From tokens to features. All matrices start as N(0, 1/width), width being the length of a token."""

from math import log
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import linear

from training.geometries.pointcloud import LinearCloud


class TowerHead(NamedTuple):
    """What reads features from tokens, and their modality's scale."""

    project: nn.Module
    scale: "ModalityScale | None"


class ProjectionHead(nn.Module):
    """Each token through one shared matrix, the results concatenated."""

    def __init__(self, weight: Float[Tensor, "n c"], bias: Float[Tensor, " n"] | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach())
        self.bias = None if bias is None else nn.Parameter(bias.detach())

    def forward(self, tokens: Float[Tensor, "b t c"], _mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b tn"]:
        return linear(tokens, self.weight, self.bias).flatten(1)


class IdentityHead(nn.Module):
    """The tokens are the features already."""

    def forward(self, tokens: Float[Tensor, "b t c"], _mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b tc"]:
        return tokens.flatten(1)


class CloudHead(nn.Module):
    """Every token becomes a point with a weight. Both towers hold the one geometry that embeds clouds."""

    def __init__(self, width: int, dim: int, geometry: LinearCloud) -> None:
        super().__init__()
        self.points = nn.Parameter(normal(width, dim, std=width**-0.5))
        self.weights = nn.Parameter(normal(width, 1, std=width**-0.5))
        self.geometry = geometry

    def forward(self, tokens: Float[Tensor, "b t c"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b n"]:
        points, weights = self._cloud(tokens)
        return self.geometry.embed(points, weights, mask)

    def each(self, tokens: Float[Tensor, "b t c"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b t n"]:
        points, weights = self._cloud(tokens)
        return self.geometry.embed_each(points, weights, mask)

    def _cloud(self, tokens: Float[Tensor, "b t c"]) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t"]]:
        return tokens @ self.points, (tokens @ self.weights).squeeze(2)


class ModalityScale(nn.Module):
    """A modality's learned scale exp(a), at first 1/sqrt(n); `clamped` keeps a at zero or below."""

    def __init__(self, n: int, clamped: bool) -> None:
        super().__init__()
        self.clamped = clamped
        self.log_scale = nn.Parameter(torch.tensor(-0.5 * log(n)))

    def forward(self, features: Float[Tensor, "*b n"]) -> Float[Tensor, "*b n"]:
        if self.clamped and self.training:  # the parameter itself: clamped in the graph, it would stick there
            self.log_scale.data.clamp_(max=0.0)
        held = self.clamped and not self.training
        return features * (self.log_scale.clamp(max=0.0) if held else self.log_scale).exp()


def normal(*shape: int, std: float) -> Tensor:
    return torch.randn(shape) * std
