"""Symmetric InfoNCE: every row and every column has exactly one right partner."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy


def infonce(
    logits: Float[Tensor, "r c"], row_groups: Int[Tensor, " r"], column_groups: Int[Tensor, " c"]
) -> Float[Tensor, ""]:
    """The mean of both directions' cross-entropies. Groups are item ids; one row and one column an item."""
    positive = row_groups[:, None] == column_groups[None, :]
    if not (positive.sum(0) == 1).all() or not (positive.sum(1) == 1).all():
        raise ValueError("InfoNCE wants exactly one row and one column of every group")
    partner = positive.to(torch.uint8).argmax(1)
    return (cross_entropy(logits, partner) + cross_entropy(logits.T, partner.argsort())) / 2
