"""What a similarity is multiplied with before the softmax: the scale 1/τ, learned or fixed, within bounds.

The bounds hold twice: in the graph, so that no step ever uses a scale beyond them, and on the parameter
itself (`clamp`, after every step), so that it never drifts away from what is used.
"""

from dataclasses import dataclass
from math import inf, log

import torch
from jaxtyping import Float
from torch import Tensor, nn

from multifold.errors import MultifoldError
from training.geometries.numerics import bounded


@dataclass(frozen=True)
class Scale:
    """How a temperature starts, where it may go, and whether it learns: parameters of every geometry."""

    scale: float = 1 / 0.07
    scale_min: float = 1.0
    scale_max: float = 100.0
    scale_learned: bool = True

    def __post_init__(self) -> None:
        """A start beyond the bounds would be moved without a word."""
        if not 0 <= self.scale_min <= self.scale <= self.scale_max or self.scale == 0:
            bounds = f"{self.scale_min:g} and {self.scale_max:g}"
            raise MultifoldError(f"a scale between {bounds} can't start at {self.scale:g}")


class Temperature(nn.Module):
    """A scale exp(t), t the parameter."""

    def __init__(self, start: Scale) -> None:
        super().__init__()
        self.low, self.high = (log(bound) if bound else -inf for bound in (start.scale_min, start.scale_max))
        self.log_scale = nn.Parameter(torch.tensor(log(start.scale)), requires_grad=start.scale_learned)

    def forward(self) -> Float[Tensor, ""]:
        return bounded(self.log_scale, self.low, self.high).exp()

    @torch.no_grad()
    def clamp(self) -> None:
        """Bring the parameter back between its bounds."""
        self.log_scale.clamp_(self.low, self.high)


class RawTemperature(nn.Module):
    """A scale that is the parameter itself, as weighted point clouds have it."""

    def __init__(self, start: Scale) -> None:
        super().__init__()
        self.low, self.high = start.scale_min, start.scale_max
        self.raw_scale = nn.Parameter(torch.tensor(start.scale), requires_grad=start.scale_learned)

    def forward(self) -> Float[Tensor, ""]:
        return bounded(self.raw_scale, self.low, self.high)

    @torch.no_grad()
    def clamp(self) -> None:
        """Bring the parameter back between its bounds."""
        self.raw_scale.clamp_(self.low, self.high)
