"""Losses by name: pure functions of logits and groups. A new one is a row loss and a line in the table."""

import inspect
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from multifold.errors import MultifoldError
from training.geometries.numerics import precise
from training.losses import multifold, pairs
from training.losses.both_ways import summarize_both
from training.losses.rows import Columns, Logits, LossRows, LossTerms, RowLoss, Rows, summarize_rows

Target: TypeAlias = Literal["teacher", "swapped", "even"]


@dataclass(frozen=True)
class Loss:
    """A row loss of the matrix and of its transpose."""

    row_loss: RowLoss
    target: Target | None = None  # whose probabilities it learns from, besides the groups
    forward: float = 0.5  # the weight of rows -> columns; the rest is columns -> rows

    def __call__(
        self,
        logits: Logits,
        row_groups: Rows,
        column_groups: Columns,
        teacher: Logits | None = None,
        progress: float = 1.0,
    ) -> Float[Tensor, ""]:
        """The mean over the rows that have something to find, in both directions."""
        logits = precise(logits)
        both = self._both(logits, row_groups, column_groups, teacher, progress)
        if both is not None:
            there, back = (self.row_loss(rows).mean for rows in both)
        else:
            there = self.direction(logits, row_groups, column_groups, teacher, progress).mean
            turned = None if teacher is None else teacher.T
            back = self.direction(logits.T, column_groups, row_groups, turned, progress).mean
        return self.forward * there + (1 - self.forward) * back

    def _both(
        self,
        logits: Logits,
        row_groups: Rows,
        column_groups: Columns,
        teacher: Logits | None,
        progress: float,
    ) -> tuple[LossRows, LossRows] | None:
        """Both directions from one pass, where that is possible."""
        if self.target == "swapped":
            return None
        if self.target == "teacher":
            return summarize_both(logits, row_groups, column_groups, _given(teacher), progress)
        return summarize_both(logits, row_groups, column_groups, self.target, progress)

    def direction(
        self,
        logits: Logits,
        row_groups: Rows,
        column_groups: Columns,
        teacher: Logits | None = None,
        progress: float = 1.0,
        among: Rows | None = None,
    ) -> LossTerms:
        """The losses of rows that look for columns; `among`: where these are some of many, their places."""
        logits = precise(logits)
        target = self._target(logits, teacher)
        return self.row_loss(summarize_rows(logits, row_groups, column_groups, target, progress, among))

    def _target(self, logits: Logits, teacher: Logits | None) -> Logits | None:
        if self.target is None:
            return None
        if self.target == "swapped":
            return swapped(logits.detach())
        if self.target == "even":
            return logits.new_full((1, 1), 1 / logits.shape[1]).expand_as(logits)
        return probabilities(_given(teacher).to(logits.dtype))


LOSSES: dict[str, Loss] = {
    "infonce": Loss(pairs.infonce),
    "infonce_mask": Loss(pairs.infonce_mask),
    "infonce_soft": Loss(pairs.infonce_soft, target="teacher"),
    "robust_xr": Loss(pairs.robust_xr, target="swapped"),
    "all_positives": Loss(multifold.all_positives),
    "soft": Loss(multifold.soft, target="teacher"),
    "hard": Loss(multifold.hard),
    "mfh": Loss(multifold.mfh, target="teacher"),
    "mfh_even": Loss(multifold.mfh_even, target="even"),
    "tricolo": Loss(pairs.infonce, forward=0.25),  # rows are views: text -> shape has the weight 0.75
}

SHARES = ("alpha", "alpha_end", "most")  # parameters between 0 and 1


def build(name: str, **params: int | float) -> Loss:
    """The loss of that name with its parameters."""
    if name not in LOSSES:
        raise MultifoldError(f"no loss {name!r}; there are: {', '.join(LOSSES)}")
    loss = LOSSES[name]
    named = inspect.signature(loss.row_loss).parameters.values()
    known = {p.name: p.annotation for p in named if p.kind == p.KEYWORD_ONLY}
    for param in params:
        if param not in known:
            has = ", ".join(known) or "none"
            raise MultifoldError(f"the loss {name} has no parameter {param!r}; it has: {has}")
    for param, value in params.items():
        if param in SHARES and not 0 <= value <= 1:
            raise MultifoldError(f"the parameter {param!r} is a share between 0 and 1, not {value}")
        if param == "draws" and (value < 0 or value != int(value)):
            raise MultifoldError(f"'draws' is a whole number from 0, and 0 stands for the limit, not {value}")
        if known[param] is bool and value not in (0, 1):
            raise MultifoldError(f"the parameter {param!r} is true or false, not {value}")
    typed = {param: bool(value) if known[param] is bool else value for param, value in params.items()}
    return replace(loss, row_loss=partial(loss.row_loss, **typed))


def _given(teacher: Logits | None) -> Logits:
    if teacher is None:
        raise ValueError("this loss learns from a teacher, and none was given")
    return teacher.detach()


def probabilities(logits: Logits) -> Logits:
    """The softmax over columns; unlike torch's own it makes no copy of a transposed matrix."""
    shares = (logits - logits.amax(1, keepdim=True)).exp_()
    return shares.div_(shares.sum(1, keepdim=True))


def swapped(logits: Logits) -> Logits:
    """The other direction's softmax, each row made to sum to one."""
    shares = probabilities(logits.T).T
    return shares / shares.sum(1, keepdim=True).clamp(min=torch.finfo(shares.dtype).tiny)
