"""The oblique manifold Ob(n, m): m unit spheres of dimension n side by side; φ is their m unit vectors.

oblique: Σⱼ cos(xⱼ, yⱼ), between −m and m, of one feature cut into m parts. oblique_multi: the same sum over m
tokens of length n, which the tower emits one after the other. oblique_geodesic: −√Σⱼ arccos² cos(xⱼ, yⱼ); no
index searches by it, so candidates come by the sum of cosines and their order by `rescore`.
"""

from math import inf

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from multifold.errors import MultifoldError
from training.geometries.base import Geometry, RescoringGeometry
from training.geometries.numerics import arccos, precise, square_root
from training.geometries.temperature import Scale, Temperature


class Oblique(Geometry):
    """The sum of m cosines. Its scale has no upper bound of its own; the paper's large run takes 100/m."""

    name = "oblique"

    start = Scale(scale_max=inf)

    def __init__(self, dim: int, start: Scale, m: int = 8) -> None:
        super().__init__(dim, dim, Temperature(start))
        if m < 1 or dim % m:
            raise MultifoldError(f"features of length {dim} cannot be cut into {m} spheres of one size")
        self.m = m

    def index_vectors(self, features: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        return normalize(self.spheres(precise(features)), dim=-1, eps=1e-8).flatten(-2)

    def stated(self) -> dict[str, float | int]:
        return {"m": self.m, **super().stated()}

    def spheres(self, vectors: Float[Tensor, "*b d"]) -> Float[Tensor, "*b m n"]:
        """Vectors cut into their m parts."""
        return vectors.reshape(*vectors.shape[:-1], self.m, -1)


class ObliqueMulti(Oblique):
    """The same, of a tower that emits m tokens: a feature is those tokens, one after the other."""

    name = "oblique_multi"


class ObliqueGeodesic(Oblique, RescoringGeometry):
    """The negative length of the geodesic."""

    name = "oblique_geodesic"

    def compare(self, query: Float[Tensor, "q d"], gallery: Float[Tensor, "g d"]) -> Float[Tensor, "q g"]:
        return self._geodesic("qmn,gmn->qgm", query, gallery)

    def rescore(self, query: Float[Tensor, "q d"], given: Float[Tensor, "q k d"]) -> Float[Tensor, "q k"]:
        return self._geodesic("qmn,qkmn->qkm", query, given)

    def _geodesic(
        self, pairs: str, query: Float[Tensor, "q d"], gallery: Float[Tensor, "*g d"]
    ) -> Float[Tensor, "q k"]:
        angles = arccos(torch.einsum(pairs, self.spheres(query), self.spheres(gallery)))
        return -square_root(angles.square().sum(-1))
