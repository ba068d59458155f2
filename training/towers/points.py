"""Towers over points of surfaces, in groups of neighbours.

Points come as [b, groups, neighbours, columns]. The columns of a point are its place relative to the middle
of the group, its place, and what else it has (`multifold.bundle.point_groups`).
"""

from itertools import pairwise
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from multifold.bundle.point_groups import PointSpec
from training.recipes.schema import SmallPointsSection
from training.towers.assemble import head, set_learning
from training.towers.base import BlockStack, Tower, TowerError
from training.towers.heads import TowerHead
from training.towers.kinds import PointKind, TowerContext
from training.towers.small import TransformerBlock

Groups: TypeAlias = Float[Tensor, "b g k c"]


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


class SmallPoints(PointKind[SmallPointsSection]):
    def build(self, section: SmallPointsSection, context: TowerContext) -> Tower:
        if section.tokens != "class":
            raise TowerError("a small point tower is read as a whole: set tokens = 'class' in [points]")
        project = head(section, section.width, context.space)
        return set_learning(GroupTower(section, self.spec(section), project), section)

    def spec(self, section: SmallPointsSection) -> PointSpec:
        return PointSpec(
            points=section.points,
            groups=section.groups,
            neighbours=section.neighbours,
            radius=section.radius,
            normals=section.normals,
            colors=section.colors,
        )
