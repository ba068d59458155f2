"""Flat space, scaled by 1/√n on both sides (EuCLIP): φ(x) = x/√n.

euclidean: −‖φ(x) − φ(y)‖. euclidean_squared: −‖φ(x) − φ(y)‖². General things lie near the origin: x entails y
when the angle between y − x and x is at most arcsin(K/‖x‖), all of it on scaled features.
"""

from math import inf, sqrt

from jaxtyping import Float
from torch import Tensor

from training.geometries.base import EntailmentGeometry, Geometry
from training.geometries.numerics import (
    SAME_POINT,
    aperture,
    arccos,
    cosines,
    lengths,
    precise,
    square_root,
    without_autocast,
)
from training.geometries.temperature import Scale, Temperature


class Euclidean(EntailmentGeometry, Geometry):
    """Negative distance with CLIP's temperature."""

    name = "euclidean"
    metric = "l2"

    def __init__(self, dim: int, start: Scale) -> None:
        super().__init__(dim, dim, Temperature(start))

    def index_vectors(self, features: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        return precise(features) / sqrt(self.feature_dim)

    def compare(self, query: Float[Tensor, "q d"], gallery: Float[Tensor, "g d"]) -> Float[Tensor, "q g"]:
        return -square_root(squared_distances(query, gallery))

    def entail(
        self, general: Float[Tensor, "p n"], specific: Float[Tensor, "s n"], k: float | Float[Tensor, ""]
    ) -> Float[Tensor, "p s"]:
        with without_autocast(general):
            x, y = self.index_vectors(general), self.index_vectors(specific)
            a = lengths(x)[:, None]
            b = lengths(y)
            cosine = cosines(x, y)
            distance = square_root((a - b).square() + 2 * a * b * (1 - cosine))
            return arccos((b * cosine - a) / distance) - aperture(k / a.clamp(min=SAME_POINT))


class EuclideanSquared(Euclidean):
    """Negative squared distance; its scale starts at 1 and has no upper bound."""

    name = "euclidean_squared"
    start = Scale(1.0, scale_max=inf)

    def compare(self, query: Float[Tensor, "q d"], gallery: Float[Tensor, "g d"]) -> Float[Tensor, "q g"]:
        return -squared_distances(query, gallery)


def squared_distances(x: Float[Tensor, "q d"], y: Float[Tensor, "g d"]) -> Float[Tensor, "q g"]:
    """‖x − y‖² of every pair; rounding never makes it negative."""
    squares = x.square().sum(1)[:, None] + y.square().sum(1)
    return (squares - 2 * x @ y.T).clamp(min=0)
