"""Losses that know pairs only: InfoNCE, and what was made of it.

The k-th row and the k-th column of an item are a pair. With one view and one caption an item this is
one-pair training; on whole groups it is the papers' group-wise variant (Info^G, Info+Mask^G), whose rows
beyond the shorter side have no partner and do not count.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from training.losses.multifold import ALPHA, mixed
from training.losses.rows import LossRows, LossTerms


def infonce(rows: LossRows) -> LossTerms:
    """Every column but the partner is a negative, those of the same item as well."""
    partner, paired = partners(rows)
    return LossTerms(rows.everyone - partner, paired)


def infonce_mask(rows: LossRows) -> LossTerms:
    """Other columns of the same item are left out: neither partner nor negative."""
    partner, paired = partners(rows)
    return LossTerms(torch.logaddexp(partner, rows.others) - partner, paired)


def infonce_soft(rows: LossRows, *, alpha: float = ALPHA) -> LossTerms:
    """`alpha` of InfoNCE and the rest of the soft term."""
    return mixed(rows, infonce(rows), alpha, alpha)


def robust_xr(rows: LossRows, *, most: float = 0.5) -> LossTerms:
    """Progressive self-distillation: a growing share of rows, at last `most`, learns from the model itself.

    Its target is the softmax of the other direction. The code was never published: a reading of the paper.
    """
    pairs = infonce(rows)
    chosen = torch.rand_like(pairs.loss) < most * rows.progress
    return LossTerms(torch.where(chosen, rows.everyone - rows.taught, pairs.loss), pairs.counted)


def partners(rows: LossRows) -> tuple[Float[Tensor, " r"], Bool[Tensor, " r"]]:
    """The logit of the k-th row of an item with its k-th column, and which rows have one."""
    paired = rows.places < rows.positives.counts
    return rows.own.gather(1, (rows.places * paired)[:, None]).squeeze(1), paired
