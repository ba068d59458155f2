"""The unit sphere: features are compared by their angle alone.

clip: cos(x, y), the cosine. elliptic: −arccos cos(x, y), the arc between them.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from training.geometries.base import Geometry
from training.geometries.numerics import arccos, precise
from training.geometries.temperature import Scale, Temperature
from training.geometries.turn import Turn


class Clip(Geometry):
    """Cosine similarity with CLIP's temperature: 1/0.07 at the start, at most 100."""

    name = "clip"

    def __init__(self, dim: int, start: Scale) -> None:
        super().__init__(dim, dim, Temperature(start))

    def index_vectors(self, features: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        units = normalize(precise(features), dim=-1, eps=1e-8)
        return units if self.turn is None else torch.as_tensor(self.turn(units))

    def nest(self) -> Turn:
        self.turn = Turn(self.feature_dim)
        return self.turn


class Elliptic(Clip):
    """The negative angle; it ranks as the cosine does."""

    name = "elliptic"

    def compare(self, query: Float[Tensor, "q d"], gallery: Float[Tensor, "g d"]) -> Float[Tensor, "q g"]:
        return -arccos(super().compare(query, gallery))
