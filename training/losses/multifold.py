"""MFH: multifold learning from all views and captions of an item at once.

The hard term of a row r with positives u (columns of its own item) and negatives h (columns of others):

    f(r, u) = -s(r, u) + log( e^s(r, u) + sum_h e^s(r, h) ) = softplus( LSE_h s(r, h) - s(r, u) )

The paper draws u at random, p times for each row, and masks the other positives each time. The draws of a row
are counts over its positives, and one pass over the matrix gives every f: so a row's loss is the mean of f
weighted by its counts, whatever p is. In the limit of many draws the weights are equal.

The soft term is the cross-entropy with the softmax of a teacher's logits over the whole row, nothing masked.
`mfh_even` needs no teacher: its target is the same for all columns, and its weight fades.
A row without negatives has the hard loss 0. With ragged groups every row counts alike.
"""

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor
from torch.nn.functional import softplus

from training.losses.rows import LossRows, LossTerms

INFINITE_DRAWS = 0  # draws: as if there were infinitely many
ALPHA = 0.6  # the weight of the hard term


def hard(rows: LossRows, *, draws: int = INFINITE_DRAWS, per_positive: bool = True) -> LossTerms:
    """One positive at a time against all negatives; `draws` a positive (or a row), or their limit."""
    _, valid, counts = rows.positives
    if draws == INFINITE_DRAWS:
        return weighted(rows, valid, counts)
    total = counts * draws if per_positive else torch.full_like(counts, draws)
    return weighted(rows, draw(counts, total), total)


def weighted(rows: LossRows, times: Shaped[Tensor, "r n"], total: Int64[Tensor, " r"]) -> LossTerms:
    """The hard term with each positive of a row taken so many times, `total` in all."""
    terms = softplus(rows.others[:, None] - rows.own) * times
    return LossTerms(terms.sum(1) / total.clamp(min=1), rows.positives.counts > 0)


def draw(positives: Int64[Tensor, " r"], draws: Int64[Tensor, " r"]) -> Float[Tensor, "r n"]:
    """How often each positive of each row is drawn: a multinomial, as one binomial for each place."""
    left = draws.float()
    times = []
    for place in range(max(1, int(positives.max()))):
        chance = 1 / (positives - place).clamp(min=1)
        times.append(torch.binomial(torch.where(positives > place, left, 0), chance))
        left = left - times[-1]
    return torch.stack(times, dim=1)


def soft(rows: LossRows) -> LossTerms:
    return LossTerms(rows.everyone - rows.taught, rows.positives.counts > 0)


def mfh(
    rows: LossRows, *, alpha: float = ALPHA, draws: int = INFINITE_DRAWS, per_positive: bool = True
) -> LossTerms:
    """The hybrid: `alpha` of the hard term and the rest of the soft one."""
    return mixed(rows, hard(rows, draws=draws, per_positive=per_positive), alpha, alpha)


def mfh_even(
    rows: LossRows,
    *,
    alpha: float = ALPHA,
    alpha_end: float = 1.0,
    draws: int = INFINITE_DRAWS,
    per_positive: bool = True,
) -> LossTerms:
    """The hybrid, its weight on the way from `alpha` to `alpha_end`."""
    return mixed(rows, hard(rows, draws=draws, per_positive=per_positive), alpha, alpha_end)


def all_positives(rows: LossRows) -> LossTerms:
    """The positives of a row share one denominator."""
    _, valid, counts = rows.positives
    return LossTerms(rows.everyone - (rows.own * valid).sum(1) / counts.clamp(min=1), counts > 0)


def mixed(rows: LossRows, right: LossTerms, start: float, end: float) -> LossTerms:
    """With the soft term; the share of `right` moves from `start` to `end` as the training goes on."""
    alpha = start + (end - start) * rows.progress
    return LossTerms(alpha * right.loss + (1 - alpha) * soft(rows).loss, right.counted)
