"""A tower over coloured voxels: convolutions that halve the cube again and again, as in TriCoLo (I+V).

Voxels come as uint8 [b, x, y, z, 4]: colour, and whether the cell is filled. Empty cells stay empty: they are
neither computed nor counted, as in the published sparse convolutions. Where these have BatchNorm, each cell
is normalised over its channels, so items of a batch do not depend on each other.
"""

from itertools import pairwise
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn
from torch.nn.functional import max_pool3d, relu

from training.recipes.schema import VoxelsSection
from training.towers.base import BlockStack, Tower, TowerError
from training.towers.heads import TowerHead

Voxels: TypeAlias = UInt8[Tensor, "b x y z 4"]


class VoxelTower(Tower):
    """For each width a convolution, a norm, and the largest of eight cells; what is left is read at once."""

    def __init__(self, section: VoxelsSection, head: TowerHead) -> None:
        super().__init__()
        if section.side % 2 ** len(section.stem):
            halved = f"a side of {section.side} cells cannot be halved {len(section.stem)} times"
            raise TowerError(f"{halved}; change side or stem in [points]")
        widths = (3, *section.stem)
        self.stem = nn.ModuleList(nn.Conv3d(*pair, 3, padding=1, bias=False) for pair in pairwise(widths))
        self.stem_norms = nn.ModuleList(nn.LayerNorm(width) for width in section.stem)
        left = section.side // 2 ** len(section.stem)
        self.widen = nn.Linear(section.stem[-1] * left**3, section.width)
        self.blocks, self.norm = BlockStack(), nn.Identity()
        self.project, self.scale = head

    def tokens(self, observed: Voxels) -> tuple[Float[Tensor, "b 1 w"], Bool[Tensor, "b 1"]]:
        cells = observed.movedim(4, 1).float() / 255
        x, filled = cells[:, :3], cells[:, 3:]
        for convolve, norm in zip(self.stem, self.stem_norms, strict=True):
            x = relu(norm(convolve(x).movedim(1, 4)).movedim(4, 1)) * filled
            x, filled = max_pool3d(x, 2), max_pool3d(filled, 2)
        x = relu(self.widen(x.flatten(1)))[:, None]
        return x, torch.ones_like(x[:, :, 0], dtype=torch.bool)
