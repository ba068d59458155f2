"""Any loss on matrices too large to hold: computed in blocks of rows, and again in backward."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from training.distributed import SINGLE_PROCESS, ProcessRank
from training.losses import Loss
from training.losses.rows import occurrence

Logits: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class FeaturePair:
    """Features of both sides, and how they are compared; swapping the sides must transpose the logits."""

    query: Float[Tensor, "q n"]
    gallery: Float[Tensor, "g n"]
    logits: Logits

    def matrix(self) -> Float[Tensor, "q g"]:
        return self.logits(self.query, self.gallery)

    @property
    def swapped(self) -> "FeaturePair":
        return FeaturePair(self.gallery, self.query, self.logits)


def tiled_loss(
    loss: Loss,
    pair: FeaturePair,
    rows: Int64[Tensor, " q"],
    columns: Int64[Tensor, " g"],
    block: int,
    teacher: FeaturePair | None = None,
    progress: float = 1.0,
    ranks: ProcessRank = SINGLE_PROCESS,
) -> Float[Tensor, ""]:
    """The loss of the whole matrix, from blocks of rows; 0: all rows of this rank at once."""
    if loss.target == "swapped":
        raise ValueError("a loss that learns from the other direction's softmax needs the whole matrix")
    there = direction_loss(loss, pair, rows, columns, block, teacher, progress, ranks)
    turned = teacher and teacher.swapped
    back = direction_loss(loss, pair.swapped, columns, rows, block, turned, progress, ranks)
    return loss.forward * there + (1 - loss.forward) * back


def direction_loss(
    loss: Loss,
    pair: FeaturePair,
    rows: Int64[Tensor, " q"],
    columns: Int64[Tensor, " g"],
    block: int,
    teacher: FeaturePair | None,
    progress: float,
    ranks: ProcessRank,
) -> Float[Tensor, ""]:
    """The mean over rows that look for columns."""
    places = occurrence(rows)
    mine = ranks.share(len(rows))

    def part(begin: int) -> tuple[Tensor, Tensor]:
        at = slice(begin, min(begin + step, mine.stop))
        logits = pair.logits(pair.query[at], pair.gallery)
        with torch.no_grad():
            taught = None if teacher is None else teacher.logits(teacher.query[at], teacher.gallery)
        terms = loss.direction(logits, rows[at], columns, taught, progress, places[at])
        return terms.total, terms.counted.sum()

    step = block or mine.stop - mine.start
    begins = range(mine.start, mine.stop, step)
    several = len(begins) > 1
    parts = [checkpoint(part, at, use_reentrant=False) if several else part(at) for at in begins]
    totals, counts = zip(*parts, strict=True)
    return torch.stack(totals).sum() / ranks.total(torch.stack(counts).sum()).clamp(min=1)
