"""InfoNCE against a plain float64 computation, and its known floor."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.losses.infonce import infonce


def plain_infonce(logits: np.ndarray) -> float:
    """Both directions, each row's partner on the diagonal, one exponential at a time."""
    total = 0.0
    for matrix in (logits, logits.T):
        for i, row in enumerate(matrix):
            total -= np.log(np.exp(row[i]) / np.exp(row).sum())
    return total / (2 * len(logits))


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_it_equals_the_plain_loop_in_any_order(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, rows, columns = rng.normal(size=(size, size)), rng.permutation(size), rng.permutation(size)
    shuffled = torch.tensor(logits[rows][:, columns])
    found = infonce(shuffled, torch.tensor(rows), torch.tensor(columns))
    assert found.item() == pytest.approx(plain_infonce(logits), abs=1e-10)


def test_cosines_without_a_scale_have_a_floor() -> None:
    """With scale 1 nothing can fall below log(1 + (B−1)·e^(−B/(B−1))): 4.548 at B = 256."""
    size = 256
    best = torch.full((size, size), -1 / (size - 1), dtype=torch.float64).fill_diagonal_(1)
    ids = torch.arange(size)
    floor = np.log(1 + (size - 1) * np.exp(-size / (size - 1)))
    assert floor == pytest.approx(4.548, abs=1e-3)
    assert infonce(best, ids, ids).item() == pytest.approx(floor, abs=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [([0, 0], [0, 1]), ([0, 1], [0, 2]), ([0, 1], [1, 1])])
def test_a_group_without_exactly_one_pair_is_refused(rows: list[int], columns: list[int]) -> None:
    with pytest.raises(ValueError, match="exactly one row and one column"):
        infonce(torch.zeros(2, 2), torch.tensor(rows), torch.tensor(columns))


def test_gradients_pull_partners_together() -> None:
    logits = torch.zeros(3, 3, requires_grad=True)
    ids = torch.arange(3)
    infonce(logits, ids, ids).backward()
    assert logits.grad is not None
    assert (logits.grad.diagonal() < 0).all()
    assert (logits.grad - torch.diag(logits.grad.diagonal()) >= 0).all()
