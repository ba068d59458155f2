"""Encoders: pictures or tokens in, features out.

The small towers here learn from scratch on a laptop. Pictures come as uint8 [b, h, w, 3] and are
normalised inside.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from training.geometries import build
from training.geometries.base import Geometry
from training.recipe import ImageTower, Recipe, TextTower

MEAN = (0.5, 0.5, 0.5)
STD = (0.25, 0.25, 0.25)


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Float[Tensor, "b t c"]) -> Float[Tensor, "b t c"]:
        x = x + self._attend(self.before_attention(x))
        mixed: Tensor = self.narrow(gelu(self.widen(self.before_mlp(x))))
        return x + mixed

    def _attend(self, x: Float[Tensor, "b t c"]) -> Float[Tensor, "b t c"]:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(b, t, c))
        return out


class SmallImageTower(nn.Module):
    """Strided convolutions halve the picture; a transformer mixes the grid; its mean is projected."""

    mean: Tensor
    std: Tensor

    def __init__(self, spec: ImageTower, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(MEAN) * 255)
        self.register_buffer("std", torch.tensor(STD) * 255)
        self.stem = nn.Sequential(*_stem((3, *spec.stem, spec.width)))
        side = spec.size // 2 ** (len(spec.stem) + 1)
        self.positions = nn.Parameter(torch.randn(side * side, spec.width) * 0.02)
        self.blocks = nn.Sequential(*(Block(spec.width, spec.heads, causal=False) for _ in range(spec.depth)))
        self.norm = nn.LayerNorm(spec.width)
        self.project = nn.Linear(spec.width, dim, bias=False)

    def forward(self, pixels: UInt8[Tensor, "b h w 3"]) -> Float[Tensor, "b n"]:
        x = ((pixels.float() - self.mean) / self.std).permute(0, 3, 1, 2)
        grid = self.stem(x).flatten(2).transpose(1, 2) + self.positions
        features: Tensor = self.project(self.norm(self.blocks(grid)).mean(1))
        return features


def _stem(channels: Sequence[int]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for wide_in, wide_out in pairwise(channels[:-1]):
        layers += [nn.Conv2d(wide_in, wide_out, 3, 2, 1, bias=False), nn.GroupNorm(1, wide_out), nn.GELU()]
    return [*layers, nn.Conv2d(channels[-2], channels[-1], 3, 2, 1)]


class SmallTextTower(nn.Module):
    """A causal transformer read out at the end-of-text token, which has the highest id."""

    def __init__(self, spec: TextTower, vocabulary: int, dim: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, spec.width)
        self.positions = nn.Parameter(torch.randn(spec.context, spec.width) * 0.02)
        self.blocks = nn.Sequential(*(Block(spec.width, spec.heads, causal=True) for _ in range(spec.depth)))
        self.norm = nn.LayerNorm(spec.width)
        self.project = nn.Linear(spec.width, dim, bias=False)
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, tokens: Int64[Tensor, "b t"]) -> Float[Tensor, "b n"]:
        x = self.blocks(self.embed(tokens) + self.positions[: tokens.shape[1]])
        end = tokens.argmax(1)[:, None, None].expand(-1, 1, x.shape[2])
        features: Tensor = self.project(self.norm(x.gather(1, end).squeeze(1)))
        return features


class Model(nn.Module):
    """Two towers and the geometry in which their features meet."""

    def __init__(self, image: nn.Module, text: nn.Module, geometry: Geometry) -> None:
        super().__init__()
        self.image, self.text, self.geometry = image, text, geometry


def build_model(recipe: Recipe, vocabulary: int) -> Model:
    """The model that a recipe asks for, freshly initialised."""
    dim = recipe.geometry.dim
    return Model(
        SmallImageTower(recipe.image, dim),
        SmallTextTower(recipe.text, vocabulary, dim),
        build(recipe.geometry.name, dim, **recipe.geometry.params),
    )
