"""Hyperbolic space, a hyperboloid of curvature −c (MERU, EuCLIP). Features are tangent vectors at its origin.

The exponential map gives φ(u) = (x, t): x = sinh(√c‖u‖)/(√c‖u‖)·u and t = √(1/c + ‖x‖²), the time.
lorentz: −d, lorentz_squared: −d², where cosh(√c·d) = −c⟨φ, φ'⟩ and ⟨φ, φ'⟩ = x·x' − t·t'. The inner product
with the query's time negated therefore ranks as the distance does, whatever c is.

The distance comes from sinh²(√c·d/2) = sinh²((a − b)/2) + c(‖x‖‖x'‖ − x·x')/2, with a = √c‖u‖ and b = √c‖u'‖:
a sum that never cancels, where arccosh of the inner product would lose half the digits.
Features u entail u' when the exterior angle at u is at most arcsin(2K/(√c‖x‖)).
"""

from math import asinh, inf, log

import torch
from jaxtyping import Float
from torch import Tensor, nn

from multifold.errors import MultifoldError
from training.geometries.base import EntailmentGeometry, Geometry
from training.geometries.numerics import (
    SAME_POINT,
    aperture,
    arccos,
    bounded,
    cosines,
    lengths,
    precise,
    square_root,
    without_autocast,
)
from training.geometries.temperature import Scale, Temperature

FARTHEST = asinh(2**15)  # radii √c‖u‖ beyond this are brought back to it
CURVATURES = (0.1, 10.0)
SERIES = 1e-3  # below this the series of arsinh² is exact in float32


class Lorentz(EntailmentGeometry, Geometry):
    """Negative distance in a space whose curvature may be learned."""

    name = "lorentz"

    def __init__(
        self,
        dim: int,
        start: Scale,
        curvature: float = 1.0,
        curvature_learned: bool = True,
        curvature_in_graph: bool = False,
    ) -> None:
        """`curvature_in_graph`: a curvature beyond its bounds is left there, without gradient (EuCLIP)."""
        super().__init__(dim, dim + 1, Temperature(start))
        if not CURVATURES[0] <= curvature <= CURVATURES[1]:
            low, high = CURVATURES
            raise MultifoldError(f"a curvature lies between {low} and {high}, not at {curvature:g}")
        self.curvature_in_graph = curvature_in_graph
        self.log_curvature = nn.Parameter(torch.tensor(log(curvature)), requires_grad=curvature_learned)

    @property
    def curvature(self) -> Float[Tensor, ""]:
        """c: the space is curved by −c."""
        low, high = map(log, CURVATURES)
        within = torch.clamp if self.curvature_in_graph else bounded
        return within(self.log_curvature, low, high).exp()

    @property
    def query_signs(self) -> Float[Tensor, " d"]:
        return torch.tensor([1.0] * self.feature_dim + [-1.0])

    def index_vectors(self, features: Float[Tensor, "b n"]) -> Float[Tensor, "b d"]:
        u = precise(features)
        c = self.curvature
        radius = (c.sqrt() * lengths(u)).clamp(min=SAME_POINT)
        space = u * (radius.clamp(max=FARTHEST).sinh() / radius)[:, None]
        return torch.cat([space, (1 / c + space.square().sum(1, keepdim=True)).sqrt()], dim=1)

    def compare(self, query: Float[Tensor, "q d"], gallery: Float[Tensor, "g d"]) -> Float[Tensor, "q g"]:
        return -2 * square_root(self._half_sinh_squared(query, gallery)).asinh() / self.curvature.sqrt()

    def entail(
        self, general: Float[Tensor, "p n"], specific: Float[Tensor, "s n"], k: float | Float[Tensor, ""]
    ) -> Float[Tensor, "p s"]:
        with without_autocast(general):
            u, v = precise(general), precise(specific)
            a = self._radii(u)[:, None]
            b = self._radii(v)
            apart = 1 - cosines(u, v)
            half = ((a - b) / 2).sinh().square() + a.sinh() * b.sinh() * apart / 2
            cosine = ((b - a).sinh() - b.sinh() * a.cosh() * apart) / (2 * square_root(half * (1 + half)))
            return arccos(cosine) - aperture(2 * k / a.sinh().clamp(min=SAME_POINT))

    def clamp(self) -> None:
        super().clamp()
        if not self.curvature_in_graph:
            with torch.no_grad():
                self.log_curvature.clamp_(*map(log, CURVATURES))

    def learned(self) -> dict[str, float]:
        return {**super().learned(), "curvature": self.curvature.item()}

    def _radii(self, tangent: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
        """Distances to the origin, in units of the curvature."""
        return (self.curvature.sqrt() * lengths(tangent)).clamp(max=FARTHEST)

    def _half_sinh_squared(
        self, query: Float[Tensor, "q d"], gallery: Float[Tensor, "g d"]
    ) -> Float[Tensor, "q g"]:
        """sinh²(√c·d/2) of every pair."""
        x = query[:, :-1]
        y = gallery[:, :-1]
        c = self.curvature
        x_length = lengths(x)[:, None]
        y_length = lengths(y)
        apart = ((c.sqrt() * x_length).asinh() - (c.sqrt() * y_length).asinh()) / 2
        across = x_length * y_length - x @ y.T
        # Not a clamp: it has no gradient at 0, where every pair with the origin lies.
        return apart.sinh().square() + c / 2 * torch.where(across >= 0, across, 0)


class LorentzSquared(Lorentz):
    """Negative squared distance; its scale starts at 1 and has no upper bound."""

    name = "lorentz_squared"
    start = Scale(1.0, scale_max=inf)

    def compare(self, query: Float[Tensor, "q d"], gallery: Float[Tensor, "g d"]) -> Float[Tensor, "q g"]:
        return -4 * arsinh_squared(self._half_sinh_squared(query, gallery)) / self.curvature


def arsinh_squared(square: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """arsinh²(√square), smooth at 0, where its parts are not."""
    near = square < SERIES
    series = square - square.square() / 3 + 8 / 45 * square**3
    return torch.where(near, series, torch.where(near, 1.0, square).sqrt().asinh().square())
