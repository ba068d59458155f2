"""Both directions of a matrix from one pass over it: what `rows.py` computes for each, with one exponential.

Rows are shifted by their largest negative. The columns' sums are those of the same numbers, each row weighted
by its own shift against the largest of all. Where a column is so far below the best rows that nothing of it
would be left in the numbers' precision, there is no such pass, and each direction is computed on its own.
The gradient of both directions is written into one matrix.
"""

from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

from training.losses.rows import Columns, Logits, LossRows, RowPositives, Rows, find_positives

Taught: TypeAlias = "SharedExponentials | Literal['even'] | None"

SMALLEST_SUM = 1e-28  # of a column's sum: what rounds to zero in float32 is no part of it then


class SharedExponentials(NamedTuple):
    """e^(s − the row's shift) of a matrix, and its sums: of the columns with rows weighted."""

    matrix: Logits
    shift: Float[Tensor, " r"]
    weight: Float[Tensor, " r"]
    by_row: Float[Tensor, " r"]
    by_column: Float[Tensor, " c"]
    shift_of_all: Float[Tensor, ""]

    def spread(self, rows: Float[Tensor, " r"], columns: Float[Tensor, " c"]) -> Logits:
        """For each place: its row's number by the row's sum, and its column's by the column's sum."""
        there = rows / self.by_row.clamp(min=torch.finfo(rows.dtype).tiny)
        return torch.addcmul(there[:, None], self.weight[:, None], (columns / self.by_column)[None, :])

    def sums(self, values: Logits) -> tuple[Float[Tensor, " r"], Float[Tensor, " c"]]:
        """Of values multiplied by the matrix: the means of rows and of columns, weighted by its shares."""
        product = self.matrix * values
        return product.sum(1) / self.by_row, (self.weight @ product) / self.by_column


SIZE = len(SharedExponentials._fields)


def share_exponentials(matrix: Logits) -> SharedExponentials | None:
    """The exponentials in the matrix itself, which is used up; none if a column has too little in them."""
    info = torch.finfo(matrix.dtype)
    shift = matrix.amax(1).clamp_(min=info.min)  # -inf has no difference with itself
    highest = shift.amax()
    weight = (shift - highest).exp_()
    matrix.sub_(shift[:, None]).exp_()
    by_column = weight @ matrix
    if not bool(by_column.amin() > SMALLEST_SUM):
        return None
    return SharedExponentials(matrix, shift, weight, matrix.sum(1), by_column, highest)


def summarize_both(
    logits: Logits,
    row_groups: Rows,
    column_groups: Columns,
    teacher: Logits | Literal["even"] | None,
    progress: float,
) -> tuple[LossRows, LossRows] | None:
    """Both directions, or none where they need a pass each."""
    there, back = find_positives(row_groups, column_groups), find_positives(column_groups, row_groups)
    with torch.no_grad():
        across = logits.shape[1]
        places = _range(there)[:, None] * across + there.columns  # in the matrix laid out row by row
        back_places = back.columns * across + _range(back)[:, None]
        negatives = share_exponentials(_without(logits, places[there.valid]))
        taught = _taught(teacher, logits.dtype)
    if negatives is None or (taught is None) != (teacher is None):
        return None
    found = _BothWays.apply(logits, negatives, taught, there, back, places, back_places)
    own, others, everyone, mean, own_back, others_back, everyone_back, mean_back = found
    return (
        LossRows(row_groups, there, own, others, everyone, mean, progress),
        LossRows(column_groups, back, own_back, others_back, everyone_back, mean_back, progress),
    )


def _range(positives: RowPositives) -> Rows:
    return torch.arange(len(positives.counts), device=positives.counts.device)


def _taught(teacher: Logits | Literal["even"] | None, dtype: torch.dtype) -> Taught:
    if isinstance(teacher, Tensor):
        return share_exponentials(teacher.to(dtype, copy=True))
    return teacher


def _without(logits: Logits, places: Int64[Tensor, " p"]) -> Logits:
    """A copy in which these places are -inf."""
    copy = logits.detach().clone(memory_format=torch.contiguous_format)
    copy.view(-1).index_fill_(0, places, -torch.inf)
    return copy


def _parts(
    own: Float[Tensor, "r n"], positives: RowPositives, others: Float[Tensor, " r"]
) -> tuple[Float[Tensor, " r"], Float[Tensor, "r n"], Float[Tensor, " r"]]:
    """`everyone`, and the shares that the positives and the negatives have in it."""
    right = own.masked_fill(~positives.valid, -torch.inf)
    everyone = torch.logaddexp(others, right.logsumexp(1))
    return everyone, right.sub_(everyone[:, None]).exp_(), (others - everyone).exp_()


class _BothWays(torch.autograd.Function):
    """`own`, `others`, `everyone` and `taught` of the rows, then of the columns."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 (torch's)
        logits: Logits,
        negatives: SharedExponentials,
        taught: Taught,
        there: RowPositives,
        back: RowPositives,
        places: Int64[Tensor, "r n"],
        back_places: Int64[Tensor, "c m"],
    ) -> tuple[Tensor, ...]:
        flat = logits.reshape(-1)
        own, own_back = flat[places], flat[back_places]
        others = negatives.by_row.log() + negatives.shift
        others_back = negatives.by_column.log() + negatives.shift_of_all
        everyone, *shares = _parts(own, there, others)
        everyone_back, *shares_back = _parts(own_back, back, others_back)
        if taught is None:
            means = torch.zeros_like(others), torch.zeros_like(others_back)
        else:
            means = (logits.mean(1), logits.mean(0)) if taught == "even" else taught.sums(logits)
        ctx.even = taught == "even"
        teacher = taught if isinstance(taught, SharedExponentials) else ()
        ctx.save_for_backward(*shares, *shares_back, places, back_places, *negatives, *teacher)
        return own, others, everyone, means[0], own_back, others_back, everyone_back, means[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Logits | None, ...]:  # noqa: ANN401 (torch's)
        own, others, everyone, mean, own_back, others_back, everyone_back, mean_back = grads
        of_own, of_others, of_own_back, of_others_back, places, back_places, *kept = ctx.saved_tensors
        negatives = SharedExponentials(*kept[:SIZE])
        grad = negatives.spread(others + everyone * of_others, others_back + everyone_back * of_others_back)
        grad.mul_(negatives.matrix)
        if ctx.even:
            grad.add_(mean[:, None] / grad.shape[1]).add_(mean_back / grad.shape[0])
        elif len(kept) > SIZE:
            teacher = SharedExponentials(*kept[SIZE:])
            grad.addcmul_(teacher.matrix, teacher.spread(mean, mean_back))
        flat = grad.view(-1)
        flat.index_add_(0, places.view(-1), (own + everyone[:, None] * of_own).view(-1))
        flat.index_add_(0, back_places.view(-1), (own_back + everyone_back[:, None] * of_own_back).view(-1))
        return grad, None, None, None, None, None, None
