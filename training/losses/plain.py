"""MFH's hard term as the paper writes it: draw, mask, repeat. Slow; what the fast one is measured against."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import cross_entropy

from training.losses.rows import Columns, Logits, Rows


def draw_places(row_groups: Rows, column_groups: Columns, draws: int) -> Int64[Tensor, "p r"]:
    """For each repetition and row, one column of its own item (every row must have one)."""
    same = (row_groups[:, None] == column_groups[None, :]).double()
    return torch.multinomial(same, draws, replacement=True).T


def repeated_hard(
    logits: Logits, row_groups: Rows, column_groups: Columns, chosen: Int64[Tensor, "p r"]
) -> Float[Tensor, ""]:
    """One direction: for each repetition, all positives but the chosen one are masked, then cross-entropy."""
    same = row_groups[:, None] == column_groups[None, :]
    losses = []
    for columns in chosen:
        masked = same.scatter(1, columns[:, None], False)
        losses.append(cross_entropy(logits.masked_fill(masked, -torch.inf), columns))
    return torch.stack(losses).mean()
