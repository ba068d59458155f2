"""The small mathematics that every geometry leans on, safe in float32.

Nothing here is NaN, or has an infinite gradient, where two points coincide, at the origin, or where rounding
carries a cosine past ±1.
"""

from math import pi

import torch
from jaxtyping import Float
from torch import Tensor

SAME_POINT = 1e-12  # below the square root of this, two points are one
LEAST_LENGTH = 1e-4  # a shorter vector loses its direction smoothly, and the gradient of an angle its pole


def precise(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The same numbers in float32 at least."""
    return x if x.dtype == torch.float64 else x.float()


def without_autocast(x: Tensor) -> torch.autocast:
    """A block in which products stay as precise as their factors."""
    return torch.autocast(x.device.type, enabled=False)


def bounded(parameter: Float[Tensor, ""], low: float, high: float) -> Float[Tensor, ""]:
    """The parameter within its bounds, with the gradient of one that has none: a plain clamp would hold for
    good whatever rests on a bound."""
    return parameter + (parameter.clamp(low, high) - parameter).detach()


def lengths(x: Float[Tensor, "*b n"]) -> Float[Tensor, "*b"]:
    """Euclidean lengths, with gradient 0 at the origin."""
    found: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return found


def square_root(square: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """A square root whose gradient ends where two points are one."""
    return square.clamp(min=SAME_POINT).sqrt()


def arccos(cosine: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The angle of a cosine: exactly 0 or π, with gradient 0, within rounding of ±1."""
    inside = cosine.abs() < 1 - 8 * torch.finfo(cosine.dtype).eps
    angle = torch.where(inside, cosine, 0).acos()
    return torch.where(inside, angle, torch.where(cosine > 0, 0.0, pi))


def cosines(x: Float[Tensor, "p n"], y: Float[Tensor, "s n"]) -> Float[Tensor, "p s"]:
    """Cosines of all angles at the origin; the origin itself is at a right angle to everything."""
    units = (v / lengths(v).clamp(min=LEAST_LENGTH)[:, None] for v in (x, y))
    first, second = units
    return (first @ second.T).clamp(-1, 1)


def aperture(sine: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Half the opening of a cone, arcsin(min(1, sine)): near the origin a cone is a half-space."""
    return pi / 2 - arccos(sine)
