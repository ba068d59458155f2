"""What every tower is: a backbone that emits tokens, and a head that reads features from them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from multifold.errors import MultifoldError
from training.towers.heads import CloudHead, ModalityScale


class TowerError(MultifoldError):
    """A tower that cannot be built as it was asked for."""


class RowBlock(nn.Module):
    """A block that takes `rows` and computes no others."""


class BlockStack(nn.ModuleList):
    """Blocks, one after the other; with `checkpointing` their insides are computed again in backward."""

    checkpointing = False

    def forward(
        self, x: Float[Tensor, "b t c"], mask: Tensor | None = None, rows: Int64[Tensor, "b r"] | None = None
    ) -> Float[Tensor, "b r c"]:
        """`mask` is added to the attention logits; `rows` are those that are read, none: all."""
        *first, last = self
        for block in first:
            x = self._through(block, x, mask)
        if isinstance(last, RowBlock):
            return self._through(last, x, mask, rows=rows)
        x = self._through(last, x, mask)
        return x if rows is None else pick_rows(x, rows)

    def _through(self, block: nn.Module, x: Tensor, mask: Tensor | None, **rows: Any) -> Tensor:  # noqa: ANN401
        if self.checkpointing and self.training:
            return torch.as_tensor(checkpoint(block, x, attn_mask=mask, use_reentrant=False, **rows))
        return torch.as_tensor(block(x, attn_mask=mask, **rows))


def pick_rows(x: Float[Tensor, "b t c"], rows: Int64[Tensor, "b r"]) -> Float[Tensor, "b r c"]:
    """Rows by their places. (Indexing with `arange(b)` would freeze the batch in an exported graph.)"""
    return x.gather(1, rows[:, :, None].expand(-1, -1, x.shape[2]))


class Tower(nn.Module, ABC):
    """Observations in, features out."""

    blocks: BlockStack
    norm: nn.Module
    project: nn.Module
    scale: ModalityScale | None

    @abstractmethod
    def tokens(self, observed: Tensor) -> tuple[Float[Tensor, "b t c"], Bool[Tensor, "b t"]]:
        """The tokens that the head reads, and which of them count."""

    def forward(self, observed: Tensor) -> Float[Tensor, "b n"]:
        features: Tensor = self.project(*self.tokens(observed))
        return features if self.scale is None else self.scale(features)

    def points(self, observed: Tensor) -> Float[Tensor, "b t n"]:
        """The contribution of each token to the feature, where tokens are the points of a cloud."""
        assert isinstance(self.project, CloudHead)
        added = self.project.each(*self.tokens(observed))
        return added if self.scale is None else self.scale(added)

    @property
    def depth(self) -> int:
        return len(self.blocks)

    def last(self, blocks: int) -> Iterator[nn.Parameter]:
        """The modules that are trained when only the head and so many blocks before it are."""
        yield from self.project.parameters()
        if self.scale is not None:
            yield from self.scale.parameters()
        if blocks:
            yield from self.norm.parameters()
            yield from (parameter for block in self.blocks[-blocks:] for parameter in block.parameters())

    def set_checkpointing(self, wanted: bool) -> None:
        """Store fewer activations, and recompute them in backward."""
        self.blocks.checkpointing = wanted
