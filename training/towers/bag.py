"""A text tower without order: the mean of the vectors of a text's words, each with a learned weight.

It costs a fraction of a small transformer, and suits names and tags.
"""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from training.recipes.schema import SmallTextSection
from training.towers.assemble import FeatureSpace, head
from training.towers.base import BlockStack, Tower, TowerError
from training.towers.heads import TowerHead
from training.towers.text import TextParts


class BagTower(Tower):
    """Words in, and one token that the head reads. What frames and fills a text does not count."""

    length = "dynamic"

    def __init__(self, parts: TextParts, head: TowerHead) -> None:
        super().__init__()
        self.embed, self.blocks, self.norm = parts.embed, BlockStack(), parts.norm
        self.log_weight = nn.Parameter(torch.zeros(parts.embed.num_embeddings))
        self.project, self.scale = head
        self.register_buffer("places", torch.arange(len(parts.positions)), persistent=False)

    def tokens(self, observed: Int64[Tensor, "b s"]) -> tuple[Float[Tensor, "b 1 c"], Bool[Tensor, "b 1"]]:
        places = self.get_buffer("places")[: observed.shape[1]]
        within = (places > 0) & (places < observed.argmax(1)[:, None])  # between start and end
        weights = torch.where(within, self.log_weight[observed].exp(), 0.0)[:, :, None]
        total = weights.sum(1, keepdim=True)
        words = (self.embed(observed) * weights).sum(1, keepdim=True)
        read: Tensor = self.norm(words / total.clamp(min=1e-6))
        return read, torch.ones_like(read[:, :, 0], dtype=torch.bool)


def bag_tower(section: SmallTextSection, parts: TextParts, space: FeatureSpace) -> BagTower:
    if section.tokens != "class":
        raise TowerError("a bag of words (depth = 0) is read as a whole: set tokens = 'class' in [text]")
    parts = parts if section.final_norm else replace(parts, norm=nn.Identity())
    return BagTower(parts, head(section, section.width, space))
