"""Weighted point clouds (WPCE): every token of a picture or a text, a unit vector vᵢ with a weight wᵢ.

A weight is signed, 100·tanh(a/100), where a is what the tower reads. Or it is positive, log(1 + eᵃ), as in an
ablation of the paper.

Two clouds are as alike as the mean over all pairs of wᵢwⱼκ(vᵢ, vⱼ), where κ mixes the inner product with a
kernel of the distance r, in shares 1 − s and s. cloud_linear: s = 0. cloud_gaussian: exp(−r²/2σ²). cloud_imq:
c/√(c² + r²). A feature is the embedding [√(1−s)·mean wᵢvᵢ ; √s·mean wᵢφ(vᵢ)]; inner products are that mean:
exactly in its linear part, on average in the kernel's, with an error of 1/√D. φ(v) = √(2/D)·cos(Wv + β) has D
random frequencies W and phases β, drawn anew for every batch, and kept in the checkpoint and the bundle.
"""

from abc import abstractmethod
from functools import partial
from math import pi, sqrt
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize, softplus

from multifold.errors import MultifoldError
from training.geometries.base import Geometry
from training.geometries.numerics import precise, without_autocast
from training.geometries.temperature import RawTemperature, Scale

HEAVIEST = 100.0  # of signed weights

Points: TypeAlias = Float[Tensor, "b t d"]
Weights: TypeAlias = Float[Tensor, "b t"]
Mask: TypeAlias = Bool[Tensor, "b t"] | None


class LinearCloud(Geometry):
    """The inner product of weighted means: the strong and simple variant."""

    name = "cloud_linear"

    def __init__(self, dim: int, start: Scale, positive: bool = False) -> None:
        super().__init__(dim, dim, RawTemperature(start))
        self.positive = positive

    def index_vectors(self, features: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        return precise(features)

    def embed(self, points: Points, raw_weights: Weights, mask: Mask = None) -> Float[Tensor, "b n"]:
        """The feature of each cloud; points whose mask is False do not exist."""
        with without_autocast(points):
            units = normalize(precise(points), dim=-1, eps=1e-6)
            weights = self.weigh(raw_weights, mask)
            return torch.cat([torch.einsum("bt,btd->bd", weights, part) for part in self._parts(units)], 1)

    def embed_each(self, points: Points, raw_weights: Weights, mask: Mask = None) -> Float[Tensor, "b t n"]:
        """What each point adds to the feature of its cloud."""
        with without_autocast(points):
            units = normalize(precise(points), dim=-1, eps=1e-6)
            weights = self.weigh(raw_weights, mask)
            return torch.cat([weights[:, :, None] * part for part in self._parts(units)], 2)

    def weigh(self, raw_weights: Weights, mask: Mask = None) -> Weights:
        """What each point counts in the mean over those of its cloud that exist."""
        raw = precise(raw_weights)
        weights = softplus(raw) if self.positive else HEAVIEST * (raw / HEAVIEST).tanh()
        if mask is None:
            return weights / weights.shape[1]
        return weights.where(mask, 0) / mask.sum(1, keepdim=True).clamp(min=1)

    def _parts(self, units: Float[Tensor, "b t d"]) -> list[Float[Tensor, "b t _"]]:
        """What a point of weight one adds, in parts that lie side by side."""
        return [units]


class KernelCloud(LinearCloud):
    """A mix of the inner product and a kernel, by random Fourier features."""

    directions: Tensor
    phases: Tensor

    def __init__(
        self,
        dim: int,
        start: Scale,
        width: float,
        frequencies: int,
        kernel_share: float,
        positive: bool,
    ) -> None:
        super().__init__(dim + frequencies, start, positive)
        if not (width > 0 and frequencies > 0 and 0 <= kernel_share <= 1):
            raise MultifoldError(
                f"no kernel has width {width:g}, share {kernel_share:g} and {frequencies} frequencies: "
                "a share lies between 0 and 1, the others are positive"
            )
        self.width, self.kernel_share = width, kernel_share
        self.register_buffer("directions", torch.empty(0, dim))
        self.register_buffer("phases", torch.empty(0))
        self.redraw(frequencies, torch.default_generator)

    def redraw(self, frequencies: int, generator: torch.Generator) -> None:
        """Other random features, and as many as that: features are of another length then."""
        points = self.directions.shape[1]
        self.directions = self.directions.new_empty(frequencies, points)
        self.phases = self.phases.new_empty(frequencies)
        self.feature_dim = self.dim = points + frequencies
        self.resample(generator)

    @torch.no_grad()
    def resample(self, generator: torch.Generator) -> None:
        normal = partial(torch.randn, generator=generator, device=generator.device)
        amplitudes = self._amplitudes(normal(len(self.phases), 1))
        self.directions.copy_(normal(*self.directions.shape) * amplitudes / self.width)
        uniform = torch.rand(len(self.phases), generator=generator, device=generator.device)
        self.phases.copy_(2 * pi * uniform)

    @abstractmethod
    def _amplitudes(self, normal: Float[Tensor, "f 1"]) -> Float[Tensor, "f 1"]:
        """Of normal numbers, the factors that make normal directions the kernel's frequencies."""

    def _parts(self, units: Float[Tensor, "b t d"]) -> list[Float[Tensor, "b t _"]]:
        return [sqrt(1 - self.kernel_share) * units, self._waves(units)]

    def _waves(self, units: Float[Tensor, "b t d"]) -> Float[Tensor, "b t f"]:
        """√s·φ: features of points whose inner product is the kernel's share on average."""
        height = sqrt(2 * self.kernel_share / len(self.phases))
        return (units @ self.directions.T + self.phases).cos() * height


class GaussianCloud(KernelCloud):
    """The kernel exp(−r²/2σ²): frequencies are normal with deviation 1/σ."""

    name = "cloud_gaussian"

    def __init__(
        self,
        dim: int,
        start: Scale,
        sigma: float = 0.5,
        frequencies: int = 1024,
        kernel_share: float = 0.333,
        positive: bool = False,
    ) -> None:
        super().__init__(dim, start, sigma, frequencies, kernel_share, positive)

    def _amplitudes(self, normal: Float[Tensor, "f 1"]) -> Float[Tensor, "f 1"]:
        return torch.ones_like(normal)


class ImqCloud(KernelCloud):
    """The inverse multiquadric c/√(c² + r²): Gaussians of all widths c/g, g normal, mixed."""

    name = "cloud_imq"

    def __init__(
        self,
        dim: int,
        start: Scale,
        c: float = 0.5,
        frequencies: int = 1024,
        kernel_share: float = 0.333,
        positive: bool = False,
    ) -> None:
        super().__init__(dim, start, c, frequencies, kernel_share, positive)

    def _amplitudes(self, normal: Float[Tensor, "f 1"]) -> Float[Tensor, "f 1"]:
        return normal
