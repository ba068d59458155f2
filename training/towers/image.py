"""Towers that see. Pictures come as uint8 [b, h, w, 3] and are normalised inside."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn

from multifold.bundle.preprocess import ImageSpec
from training.recipes.schema import TowerSection
from training.towers.base import BlockStack, Tower
from training.towers.heads import TowerHead

Pixels: TypeAlias = UInt8[Tensor, "b h w 3"]
# What open_clip and timm call the parts that pool and project.
HEADS = ("attnpool", "attn_pool", "fc_norm", "head")


@dataclass(frozen=True)
class ImageParts:
    """The parts of a transformer over patches; without class tokens the mean of all patches is read."""

    stem: nn.Module  # [b 3 h w] -> a grid [b c y x]
    classes: Float[Tensor, "m c"] | None
    positions: Float[Tensor, "p c"]  # of the class tokens, then of the grid
    before: nn.Module
    blocks: BlockStack
    norm: nn.Module


class ImageTower(Tower):
    """A tower that knows how its pictures are normalised."""

    mean: Tensor
    std: Tensor

    def __init__(self, spec: ImageSpec) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(spec.mean) * 255)
        self.register_buffer("std", torch.tensor(spec.std) * 255)

    def normalised(self, pixels: Pixels) -> Float[Tensor, "b 3 h w"]:
        return ((pixels.float() - self.mean) / self.std).permute(0, 3, 1, 2)


class PatchTower(ImageTower):
    """Class tokens, if any, and a grid of patches, mixed by a transformer."""

    def __init__(self, section: TowerSection, spec: ImageSpec, parts: ImageParts, head: TowerHead) -> None:
        super().__init__(spec)
        self.every = section.tokens == "all"
        self.stem, self.before = parts.stem, parts.before
        self.classes = None if parts.classes is None else nn.Parameter(parts.classes.detach())
        self.positions = nn.Parameter(parts.positions.detach(), parts.positions.requires_grad)
        self.blocks = parts.blocks
        self.norm = parts.norm if section.final_norm else nn.Identity()
        self.project, self.scale = head

    def tokens(self, observed: Pixels) -> tuple[Float[Tensor, "b t c"], Bool[Tensor, "b t"]]:
        x = self._read(self.norm(self.blocks(self._patches(observed))))
        return x, torch.ones_like(x[:, :, 0], dtype=torch.bool)

    def _patches(self, observed: Pixels) -> Float[Tensor, "b p c"]:
        """What the first block gets."""
        x = self.stem(self.normalised(observed)).flatten(2).transpose(1, 2)
        if self.classes is not None:
            x = torch.cat([self.classes.expand(x.shape[0], -1, -1), x], 1)
        patches: Tensor = self.before(x + self.positions)
        return patches

    def last(self, blocks: int) -> Iterator[nn.Parameter]:
        yield from super().last(blocks)
        if self.classes is not None and len(self.classes) > 1:
            yield self.classes

    def _read(self, x: Float[Tensor, "b p c"]) -> Float[Tensor, "b t c"]:
        if self.every:
            return x
        return x.mean(1, keepdim=True) if self.classes is None else x[:, : len(self.classes)]


class WholeTower(ImageTower):
    """Any other network of open_clip that makes one feature of a picture: a ResNet, a SigLIP."""

    network: Any  # open_clip is not typed

    def __init__(self, spec: ImageSpec, network: nn.Module, head: TowerHead, still: bool) -> None:
        super().__init__(spec)
        self.network = network
        self.project, self.scale = head
        self.norm = nn.Identity()
        self.still = still
        self.train()

    def train(self, mode: bool = True) -> "WholeTower":
        """Train or eval mode; the statistics of a still tower do not change."""
        super().train(mode)
        for part in self.network.modules() if self.still else ():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.eval()
        return self

    def tokens(self, observed: Pixels) -> tuple[Float[Tensor, "b 1 c"], Bool[Tensor, "b 1"]]:
        feature = self.network(self.normalised(observed))[:, None]
        return feature, torch.ones_like(feature[:, :, 0], dtype=torch.bool)

    @property
    def depth(self) -> int:
        return len(self._own_blocks())

    def last(self, blocks: int) -> Iterator[nn.Parameter]:
        yield from super().last(0)
        owners = (self.network, getattr(self.network, "trunk", None))
        heads = [getattr(owner, name, None) for owner in owners for name in HEADS]
        for part in (*heads, *self._own_blocks()[self.depth - blocks :]):
            if isinstance(part, nn.Module):
                yield from part.parameters()

    def set_checkpointing(self, wanted: bool) -> None:
        self.network.set_grad_checkpointing(wanted)

    def _own_blocks(self) -> list[nn.Module]:
        return list(getattr(getattr(self.network, "trunk", None), "blocks", ()))
