"""A tower that reads both ways, as BERT does: post-norm blocks, pads masked, and m class tokens in front.

All class tokens have the one [CLS] embedding, with which every text begins; only their positions differ.
"""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from training.recipes.schema import BertTextSection
from training.towers.base import BlockStack, Tower
from training.towers.heads import TowerHead, normal
from training.towers.small import SPREAD, attend

PAD = 0


class PostNormBlock(nn.Module):
    """A transformer block that normalises what it has added up."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.after_attention, self.after_mlp = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Float[Tensor, "b t c"], attn_mask: Tensor | None) -> Float[Tensor, "b t c"]:
        x = self.after_attention(x + self.out(attend(self.qkv(x), self.heads, attn_mask)))
        out: Tensor = self.after_mlp(x + self.mlp(x))
        return out


class BertTower(Tower):
    """Bidirectional; reads out its class tokens, or every token that is no pad."""

    length = "fixed"

    def __init__(self, spec: BertTextSection, vocabulary: int, head: TowerHead) -> None:
        super().__init__()
        self.every = spec.tokens == "all"
        self.count = spec.tokens if isinstance(spec.tokens, int) else 1
        self.context = spec.context
        self.embed = nn.Embedding(vocabulary, spec.width)
        nn.init.normal_(self.embed.weight, std=SPREAD)
        self.positions = nn.Parameter(normal(spec.context + self.count - 1, spec.width, std=SPREAD))
        self.before = nn.LayerNorm(spec.width)
        self.blocks = BlockStack(PostNormBlock(spec.width, spec.heads) for _ in range(spec.depth))
        self.norm = nn.LayerNorm(spec.width) if spec.final_norm else nn.Identity()
        self.project, self.scale = head

    def tokens(self, observed: Int64[Tensor, "b s"]) -> tuple[Float[Tensor, "b r c"], Bool[Tensor, "b r"]]:
        ids = torch.cat([observed[:, :1].expand(-1, self.count - 1), observed], 1)
        words = ids != PAD
        hidden = torch.zeros_like(words, dtype=torch.float).masked_fill(~words, float("-inf"))
        x = self.before(self.embed(ids) + self.positions[: ids.shape[1]])
        x = self.norm(self.blocks(x, hidden[:, None, None]))
        return (x, words) if self.every else (x[:, : self.count], words[:, : self.count])
