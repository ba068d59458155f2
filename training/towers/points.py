"""Towers over surfaces: their points in groups of neighbours, or coloured voxels.

Points come as [b, groups, neighbours, columns]. The columns of a point are its place relative to the middle
of the group, its place, and what else it has (`multifold.bundle.point_groups`). Voxels come as uint8
[b, x, y, z, 4]: colour, and whether the cell is filled.
"""

from itertools import pairwise
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn
from torch.nn.functional import gelu, max_pool3d, relu

from multifold.bundle.point_groups import PointSpec
from training.data.points import SurfaceSpec, VoxelSpec
from training.recipes.schema import PointBertSection, PointsSection, SmallPointsSection, VoxelsSection
from training.towers.base import BlockStack, Tower, TowerError
from training.towers.heads import TowerHead
from training.towers.small import TransformerBlock

Groups: TypeAlias = Float[Tensor, "b g k c"]
Voxels: TypeAlias = UInt8[Tensor, "b x y z 4"]


class GroupTower(Tower):
    """A small network reads each group and keeps its largest values; a transformer mixes the groups."""

    def __init__(self, section: SmallPointsSection, spec: PointSpec, head: TowerHead) -> None:
        super().__init__()
        widths = (spec.columns, *section.stem)
        self.stem = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.stem_norms = nn.ModuleList(nn.LayerNorm(width) for width in section.stem)
        self.lift = nn.Linear(section.stem[-1] + 3, section.width)
        self.blocks = BlockStack(TransformerBlock(section.width, section.heads) for _ in range(section.depth))
        self.norm = nn.LayerNorm(section.width) if section.final_norm else nn.Identity()
        self.project, self.scale = head

    def tokens(self, observed: Groups) -> tuple[Float[Tensor, "b 1 w"], Bool[Tensor, "b 1"]]:
        """The mean over groups; without blocks the largest value of any, as PointNet++ ends."""
        x = observed
        for layer, norm in zip(self.stem, self.stem_norms, strict=True):
            x = gelu(norm(layer(x)))
        x = self.lift(torch.cat([middles_of(observed), x.amax(2)], dim=2))
        x = self.norm(self.blocks(x)).mean(1, keepdim=True) if len(self.blocks) else self._largest(x)
        return x, torch.ones_like(x[:, :, 0], dtype=torch.bool)

    def _largest(self, x: Float[Tensor, "b g w"]) -> Float[Tensor, "b 1 w"]:
        largest: Tensor = self.norm(gelu(x).amax(1, keepdim=True))
        return largest


def middles_of(observed: Groups) -> Float[Tensor, "b g 3"]:
    """The middle of each group: the place of its first point, less its place relative to the middle."""
    return observed[:, :, 0, 3:6] - observed[:, :, 0, :3]


class VoxelTower(Tower):
    """Convolutions that halve the cube again and again, as in TriCoLo (I+V): for each width a convolution, a
    norm, and the largest of eight cells; what is left is read at once.

    Empty cells stay empty: they are neither computed nor counted, as in the published sparse convolutions.
    Where these have BatchNorm, each cell is normalised over its channels, so items of a batch do not depend
    on each other.
    """

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


def point_spec(section: PointsSection) -> PointSpec:
    """How a tower over groups of points wants meshes sampled and their points grouped."""
    if isinstance(section, VoxelsSection):
        raise TowerError("a tower over voxels reads no groups of points")
    if isinstance(section, PointBertSection):
        return PointSpec(10_000, 64, 256, 0.4, normals=False, colors=True, middle="mean")
    return PointSpec(
        points=section.points,
        groups=section.groups,
        neighbours=section.neighbours,
        radius=section.radius,
        normals=section.normals,
        colors=section.colors,
    )


def surface_spec(section: PointsSection) -> SurfaceSpec:
    """How a tower wants meshes sampled: as groups of points, or as voxels."""
    return VoxelSpec(section.side) if isinstance(section, VoxelsSection) else point_spec(section)
