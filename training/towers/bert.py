"""A tower that reads both ways, as BERT does: post-norm blocks, pads masked, and m class tokens in front.

All class tokens have the one [CLS] embedding, with which every text begins; only their positions differ.
"""

from collections.abc import Iterable
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from multifold.bundle.tokenizer import TextSpec
from training.recipes.schema import BertTextSection
from training.towers.assemble import head, set_learning
from training.towers.base import BlockStack, Tower, TowerError
from training.towers.heads import TowerHead, normal
from training.towers.kinds import TextKind, TowerContext, text_spec
from training.towers.small import SPREAD, attend
from training.towers.tokenizers import TrainedTokenizer, read_definition, train_definition

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


class BertText(TextKind[BertTextSection]):
    def build(self, section: BertTextSection, context: TowerContext) -> Tower:
        project = head(section, section.width, context.space)
        return set_learning(BertTower(section, context.vocabulary, project), section)

    def spec(self, section: BertTextSection, tokenizer: TrainedTokenizer) -> TextSpec:
        return text_spec(tokenizer, section.context, dynamic=False)

    def tokenizer(self, section: BertTextSection, texts: Iterable[str]) -> TrainedTokenizer:
        if section.tokenizer is None:
            return train_definition(texts, section.vocabulary)
        named = read_definition(Path(section.tokenizer), "bert")
        if named.start is None or named.pad != PAD:
            kind = f"BERT's kind: a class id in front, and {PAD} as its pad"
            raise TowerError(f"{section.tokenizer} is not {kind}")
        return named
