"""What a loss needs to know of a row of logits, computed in one pass with its gradient.

A matrix of logits [rows, columns] comes with the group (item) of each row and column; equal groups are
positives, and groups may be ragged. A row has the logits of its positives (`own`), the log-sum-exp of
its negatives (`others`) and of all its columns (`everyone`), and the sum of its logits weighted by the
probabilities of a teacher (`taught`). Every loss is a small function of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

Logits: TypeAlias = Float[Tensor, "r c"]
Rows: TypeAlias = Int64[Tensor, " r"]  # of each row, its group or its place
Columns: TypeAlias = Int64[Tensor, " c"]


class RowPositives(NamedTuple):
    """The columns of each row's own item, in order, filled up to the longest row by its first one again."""

    columns: Int64[Tensor, "r n"]
    valid: Bool[Tensor, "r n"]
    counts: Rows


@dataclass(frozen=True)
class LossRows:
    """One direction of a batch, row by row."""

    groups: Rows
    positives: RowPositives
    own: Float[Tensor, "r n"]  # filled up like the positives
    others: Float[Tensor, " r"]  # -inf where a row has no negatives
    everyone: Float[Tensor, " r"]
    taught: Float[Tensor, " r"]  # 0 where nobody teaches
    progress: float = 1.0  # how much of the training is done, for losses that change on the way
    among: Rows | None = None  # where these are some of many rows: their places among all

    @cached_property
    def places(self) -> Rows:
        """How many earlier rows are of the same item."""
        return occurrence(self.groups) if self.among is None else self.among


class LossTerms(NamedTuple):
    """The loss of every row, and which rows count."""

    loss: Float[Tensor, " r"]
    counted: Bool[Tensor, " r"]

    @property
    def total(self) -> Float[Tensor, ""]:
        """The sum over the rows that count."""
        return torch.where(self.counted, self.loss, 0).sum()

    @property
    def mean(self) -> Float[Tensor, ""]:
        """Over the rows that count; 0 when none does."""
        return self.total / self.counted.sum().clamp(min=1)


RowLoss: TypeAlias = Callable[[LossRows], LossTerms]


def summarize_rows(
    logits: Logits,
    row_groups: Rows,
    column_groups: Columns,
    target: Logits | None = None,
    progress: float = 1.0,
    among: Rows | None = None,
) -> LossRows:
    """A direction from its logits, and from the probabilities that a teacher gives each row's columns."""
    positives = find_positives(row_groups, column_groups)
    own, others, everyone, taught = _Summary.apply(logits, positives.columns, positives.valid, target)
    return LossRows(row_groups, positives, own, others, everyone, taught, progress, among)


def find_positives(row_groups: Rows, column_groups: Columns) -> RowPositives:
    """By sorting the columns: no matrix of pairs is made."""
    ordered, order = column_groups.sort(stable=True)
    first = torch.searchsorted(ordered, row_groups)
    count = torch.searchsorted(ordered, row_groups, right=True) - first
    place = torch.arange(max(1, int(count.max())), device=row_groups.device)
    valid = place < count[:, None]
    within = (first[:, None] + place * valid).clamp(max=len(order) - 1)
    return RowPositives(order[within], valid, count)


def occurrence(groups: Int64[Tensor, " n"]) -> Int64[Tensor, " n"]:
    """How many earlier entries are of the same group."""
    ordered, order = groups.sort(stable=True)
    place = torch.arange(len(groups), device=groups.device) - torch.searchsorted(ordered, ordered)
    return torch.empty_like(place).scatter_(0, order, place)


class _Summary(torch.autograd.Function):
    """The four numbers of each row; the shares that their gradient is made of are kept from the way there."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 (torch's)
        logits: Logits,
        columns: Int64[Tensor, "r n"],
        valid: Bool[Tensor, "r n"],
        target: Logits | None,
    ) -> tuple[Float[Tensor, "r n"], Float[Tensor, " r"], Float[Tensor, " r"], Float[Tensor, " r"]]:
        own = logits.gather(1, columns)
        negatives = own.masked_fill(valid[:, :1], -torch.inf)  # a row without positives has only negatives
        shares = torch.empty_like(logits) if target is None else target * logits
        taught = torch.zeros_like(own[:, 0]) if target is None else shares.sum(1)
        shares.copy_(logits).scatter_(1, columns, negatives)
        info = torch.finfo(shares.dtype)
        most = shares.amax(1, keepdim=True).clamp_(min=info.min)  # -inf has no difference with itself
        total = shares.sub_(most).exp_().sum(1, keepdim=True)
        others = (total.log() + most).squeeze(1)
        right = own.masked_fill(~valid, -torch.inf)
        everyone = torch.logaddexp(others, right.logsumexp(1))
        shares_of_own = right.sub_(everyone[:, None]).exp_()
        share_of_others = (others - everyone).exp_()
        ctx.save_for_backward(
            shares, total.clamp_(min=info.tiny), columns, shares_of_own, share_of_others, target
        )
        return own, others, everyone, taught

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,  # noqa: ANN401 (torch's)
        own: Float[Tensor, "r n"],
        others: Float[Tensor, " r"],
        everyone: Float[Tensor, " r"],
        taught: Float[Tensor, " r"],
    ) -> tuple[Logits, None, None, None]:
        shares, total, columns, shares_of_own, share_of_others, target = ctx.saved_tensors
        grad = shares * ((others + everyone * share_of_others)[:, None] / total)
        if target is not None:
            grad.addcmul_(target, taught[:, None])
        grad.scatter_add_(1, columns, own + everyone[:, None] * shares_of_own)
        return grad, None, None, None
