"""Towers that read, one token after the other, as CLIP does; their kin that read both ways, or without order.

After the end-of-text token there is room: for pads that are points of their own, or for class tokens.
What stands there is the `tail`. A causal tower's sentence never sees it, but it sees the sentence.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.functional import pad

from training.towers.base import BlockStack, Tower
from training.towers.heads import TowerHead

Readout: TypeAlias = Literal["end", "last", "appended", "all", "all but pads"]


@dataclass(frozen=True)
class TextParts:
    embed: nn.Embedding
    positions: Float[Tensor, "t c"]
    blocks: BlockStack
    norm: nn.Module
    causal: bool
    reads: Literal["end", "last"] = "end"  # the end of a text, which is its highest id; or the last place


class TextTower(Tower):
    """A transformer over tokens, and how its text is read out."""

    places: Tensor
    causal_mask: Tensor | None

    def __init__(
        self, parts: TextParts, readout: Readout, tail: Float[Tensor, "r c"] | None, head: TowerHead
    ) -> None:
        super().__init__()
        self.readout = readout
        self.embed, self.blocks, self.norm = parts.embed, parts.blocks, parts.norm
        self.positions = nn.Parameter(parts.positions.detach())
        self.tail = None if tail is None else nn.Parameter(tail.detach())
        self.appended = len(tail) if tail is not None and readout == "appended" else 0
        self.context = len(parts.positions) - self.appended
        self.length: Literal["dynamic", "fixed"] = "dynamic" if parts.causal and readout == "end" else "fixed"
        self.project, self.scale = head
        places = len(parts.positions)
        self.register_buffer("places", torch.arange(places), persistent=False)
        self.register_buffer("causal_mask", causal_mask(places) if parts.causal else None, persistent=False)

    def tokens(self, observed: Int64[Tensor, "b s"]) -> tuple[Float[Tensor, "b t c"], Bool[Tensor, "b t"]]:
        ids = pad(observed, (0, self.appended)) if self.appended else observed
        t = ids.shape[1]
        end = observed.argmax(1)
        beyond = self.places[:t] - end[:, None]
        mask = None if self.causal_mask is None else self.causal_mask[:t, :t]
        x = self.embed_words(ids, beyond) + self.positions[:t]
        x = self.norm(self.blocks(x, mask, self._rows(ids, end)))
        counted = beyond <= 0 if self.readout == "all but pads" else torch.ones_like(x[:, :, 0]).bool()
        return x, counted

    def last(self, blocks: int) -> Iterator[nn.Parameter]:
        yield from super().last(blocks)
        if self.tail is not None:
            yield self.tail

    def embed_words(self, ids: Int64[Tensor, "b t"], beyond: Int64[Tensor, "b t"]) -> Float[Tensor, "b t c"]:
        """The embeddings of tokens, those of the tail in the places `beyond` the end of a text."""
        words: Tensor = self.embed(ids)
        if self.tail is None:
            return words
        rows = len(self.tail)
        in_tail = (beyond >= 1) & (beyond <= rows)
        return torch.where(in_tail[:, :, None], self.tail[(beyond - 1).clamp(0, rows - 1)], words)

    def _rows(self, ids: Int64[Tensor, "b t"], end: Int64[Tensor, " b"]) -> Int64[Tensor, "b r"] | None:
        """The places that are read; none: every one."""
        if self.readout == "end":
            return end[:, None]
        if self.readout == "appended":
            return end[:, None] + 1 + self.places[: self.appended]
        return torch.full_like(end, ids.shape[1] - 1)[:, None] if self.readout == "last" else None


def causal_mask(places: int) -> Float[Tensor, "t t"]:
    return torch.full((places, places), float("-inf")).triu(1)


class BagTower(Tower):
    """A text tower without order: the mean of the vectors of a text's words, each with a learned weight.

    It costs a fraction of a small transformer, and suits names and tags. The mean is the one token that the
    head reads. What frames and fills a text does not count.
    """

    length = "dynamic"

    def __init__(self, parts: TextParts, head: TowerHead) -> None:
        super().__init__()
        self.embed = parts.embed
        self.blocks = BlockStack()
        self.norm = parts.norm
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
