"""One pass over the matrix gives what each direction gives alone, or says that it cannot."""

import pytest
import torch
from torch import Tensor

from tests.training.losses.test_losses import ragged
from training.losses import LOSSES, build
from training.losses.both_ways import share_exponentials, summarize_both

BATCH = (6, 5)  # views and captions of an item, as in the papers
SMOOTH = [name for name in LOSSES if name not in ("robust_xr", "tricolo")]  # random; of other weights


def paper_batch(scale: float, items: int = 30) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows, columns = (torch.arange(items).repeat_interleave(each) for each in BATCH)
    generator = torch.Generator().manual_seed(0)
    logits, teacher = (torch.randn(len(rows), len(columns), generator=generator) * scale for _ in range(2))
    return logits, rows, columns, teacher


def alone(name: str, logits: Tensor, rows: Tensor, columns: Tensor, teacher: Tensor) -> Tensor:
    """Each direction from a pass of its own."""
    loss = build(name)
    there = loss.direction(logits, rows, columns, teacher, 0.3).mean
    return (there + loss.direction(logits.T, columns, rows, teacher.T, 0.3).mean) / 2


@pytest.mark.parametrize("name", SMOOTH)
def test_it_equals_two_passes_and_its_gradient_theirs(name: str) -> None:
    logits, rows, columns, teacher = ragged(11)
    rows[0] = 99  # a row without positives
    columns[-1] = 98
    both, each = (logits.clone().requires_grad_() for _ in range(2))
    assert summarize_both(both, rows, columns, teacher, 0.3) is not None
    one, other = build(name)(both, rows, columns, teacher, 0.3), alone(name, each, rows, columns, teacher)
    one.backward()
    other.backward()
    torch.testing.assert_close(one, other, atol=1e-12, rtol=0)
    torch.testing.assert_close(both.grad, each.grad, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["hard", "mfh", "mfh_even", "infonce"])
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
def test_float32_stays_within_a_millionth(name: str, scale: float) -> None:
    logits, rows, columns, teacher = paper_batch(scale)
    exact = alone(name, logits.double(), rows, columns, teacher.double())
    assert build(name)(logits, rows, columns, teacher, 0.3).item() == pytest.approx(exact.item(), rel=1e-6)


def test_a_column_far_below_the_others_is_not_lost() -> None:
    """Its numbers would all be zero beside the rows' best: it has a pass of its own, and the same loss."""
    logits, rows, columns, teacher = paper_batch(5.0)
    logits[:, 7] -= 300
    assert summarize_both(logits, rows, columns, None, 0.0) is None
    assert summarize_both(paper_batch(5.0)[0], rows, columns, logits, 0.0) is None  # or the teacher's
    exact = alone("hard", logits.double(), rows, columns, teacher.double())
    assert build("hard")(logits, rows, columns).item() == pytest.approx(exact.item(), rel=1e-6)


def test_exponentials_use_up_the_matrix_and_give_its_softmax() -> None:
    logits = paper_batch(4.0)[0].double()
    shared = share_exponentials(logits.clone())
    assert shared is not None
    there, back = shared.sums(logits)
    torch.testing.assert_close(there, (logits.softmax(1) * logits).sum(1))
    torch.testing.assert_close(back, (logits.softmax(0) * logits).sum(0))
    ones = torch.ones(len(there), dtype=torch.float64), torch.ones(len(back), dtype=torch.float64)
    torch.testing.assert_close(shared.matrix * shared.spread(*ones), logits.softmax(1) + logits.softmax(0))
