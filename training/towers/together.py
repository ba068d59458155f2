"""A set encoder: the features of an item's views, read together. Their order does not matter."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from training.recipes.schema import TogetherSection
from training.towers.base import BlockStack, TowerError
from training.towers.small import TransformerBlock


class SetEncoder(nn.Module):
    """The mean of the features, and what a transformer over them adds to it: nothing, to begin with."""

    def __init__(self, length: int, blocks: int, heads: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(length), nn.LayerNorm(length)
        self.blocks = BlockStack(TransformerBlock(length, heads) for _ in range(blocks))
        self.add = nn.Linear(length, length)
        nn.init.zeros_(self.add.weight)
        nn.init.zeros_(self.add.bias)

    def of_items(self, views: Float[Tensor, "i v n"]) -> Float[Tensor, "i n"]:
        """The same for items of as many views each."""
        together: Tensor = views.mean(1) + self.add(self.after(self.blocks(self.before(views))).mean(1))
        return together

    def forward(self, features: Float[Tensor, "b n"], of: Int64[Tensor, " b"]) -> Float[Tensor, "i n"]:
        """One feature for each item; `of` numbers the items from 0, each view's own."""
        count = int(of.max()) + 1
        mean = mean_by_item(features, of, count)
        order = of.argsort(stable=True)
        sizes = torch.bincount(of, minlength=count)
        place = torch.arange(len(of), device=of.device) - (sizes.cumsum(0) - sizes)[of[order]]
        table = features.new_zeros(count, int(sizes.max()), features.shape[1])
        there = torch.zeros(table.shape[:2], dtype=torch.bool, device=of.device)
        table[of[order], place], there[of[order], place] = features[order], True
        hidden = torch.zeros_like(there, dtype=features.dtype).masked_fill(~there, float("-inf"))
        mixed = self.after(self.blocks(self.before(table), hidden[:, None, None]))
        shares = there[:, :, None].to(mixed.dtype) / sizes[:, None, None]
        together: Tensor = mean + self.add((mixed * shares).sum(1))
        return together


def mean_by_item(features: Float[Tensor, "b n"], of: Int64[Tensor, " b"], count: int) -> Float[Tensor, "i n"]:
    start = features.new_zeros(count, features.shape[1])
    return start.scatter_reduce(0, of[:, None].expand_as(features), features, "mean", include_self=False)


def set_encoder(section: TogetherSection, length: int) -> SetEncoder | None:
    """The set encoder that a recipe asks for; none, where the mean is read."""
    if not section.blocks:
        return None
    if length % section.heads:
        raise TowerError(
            f"{section.heads} heads cannot share features of length {length}; set heads in [together]"
        )
    return SetEncoder(length, section.blocks, section.heads)
