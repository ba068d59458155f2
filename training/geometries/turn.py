"""The turn of unit vectors that can be cut: afterwards their first numbers tell as much as they can."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from training.geometries.numerics import precise, without_autocast

KEPT = 0.98  # of what earlier batches said: the mean is that of about the last fifty


class Turn(nn.Module):
    """A rotation onto the main axes of both sides, the longest first; inner products stay what they are.

    Training keeps the running second moment of unit features. The axes are its eigenvectors, found whenever
    training pauses; during training nothing is turned.
    """

    moment: Tensor
    axes: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("moment", torch.zeros(dim, dim))
        self.register_buffer("axes", torch.eye(dim), persistent=False)

    @torch.no_grad()
    def observe(self, *sides: Float[Tensor, "_ n"]) -> None:
        """Learn from the features of a batch; each side counts the same."""
        with without_autocast(sides[0]):
            units = [normalize(precise(side), dim=-1) for side in sides if len(side)]
            moments = [unit.T @ unit / len(unit) for unit in units]
            self.moment.lerp_(torch.stack(moments).mean(0), 1 - KEPT)

    @torch.no_grad()
    def adopt(self, axes: Float[Tensor, "n n"]) -> None:
        """Turn as these axes do, which were found before."""
        self.moment.copy_(axes * torch.arange(len(axes), 0, -1) @ axes.T)

    def train(self, mode: bool = True) -> "Turn":
        if self.training and not mode:
            self.axes.copy_(main_axes(self.moment))
        return super().train(mode)

    def forward(self, units: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        turned: Tensor = units if self.training else units @ self.axes
        return turned


def main_axes(moment: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """Its eigenvectors as columns, that of the largest value first, each with its largest number positive."""
    if not moment.any():
        return torch.eye(len(moment), device=moment.device)  # nothing was observed
    axes: Tensor = torch.linalg.eigh(moment.double())[1].flip(1)
    largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
    return (axes * largest.sign()).to(moment.dtype)
