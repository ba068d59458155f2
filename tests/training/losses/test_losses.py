"""Every loss against the plain float64 computation, on ragged groups; MFH against draw, mask, repeat."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from multifold.errors import MultifoldError
from tests.training.losses.plain import DIRECTIONS, both
from training.losses import LOSSES, Loss, build
from training.losses.multifold import draw, weighted
from training.losses.pairs import infonce
from training.losses.rows import find_positives, summarize_rows

GOLDEN = Path(__file__).parents[2] / "golden" / "losses.json"


def ragged(
    seed: int, items: int = 5, most: int = 4, scale: float = 3.0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits, row groups, column groups and a teacher; every item has at least one of each."""
    rng = np.random.default_rng(seed)
    groups = [np.repeat(np.arange(items), rng.integers(1, most + 1, items)) for _ in range(2)]
    rows_, columns = (torch.from_numpy(rng.permutation(each)) for each in groups)
    shape = (len(rows_), len(columns))
    logits, teacher = (torch.from_numpy(rng.normal(size=shape) * scale) for _ in range(2))
    return logits, rows_, columns, teacher


@pytest.mark.parametrize("name", DIRECTIONS)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), items=st.integers(1, 6))
def test_it_equals_the_plain_computation(name: str, seed: int, items: int) -> None:
    case = ragged(seed, items)
    expected = both(DIRECTIONS[name], *(each.numpy() for each in case))
    assert build(name)(*case, progress=0.0).item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", DIRECTIONS)
def test_golden_numbers(name: str) -> None:
    golden = json.loads(GOLDEN.read_text())
    logits, teacher = (torch.tensor(golden[key], dtype=torch.float64) for key in ("logits", "teacher"))
    groups = torch.tensor(golden["rows"]), torch.tensor(golden["columns"])
    found = build(name)(logits, *groups, teacher, progress=0.0).item()
    assert found == pytest.approx(golden["losses"][name], abs=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    logits, rows_, columns, teacher = ragged(3, items=3)

    def loss(matrix: Tensor) -> Tensor:
        torch.manual_seed(0)
        return build(name)(matrix, rows_, columns, teacher)

    if name == "robust_xr":  # its target is the model's own answer, without gradient
        return
    assert torch.autograd.gradcheck(loss, logits.requires_grad_())


@pytest.mark.parametrize("draws", [1, 3, 40])
def test_counted_draws_equal_draw_mask_repeat(draws: int) -> None:
    """The same draws, once as the paper repeats them and once as counts: the same loss and gradients."""
    logits, rows_, columns, _ = ragged(8)
    same = rows_[:, None] == columns[None, :]
    chosen = torch.multinomial(same.double(), draws, replacement=True).T
    slow, fast = (logits.clone().requires_grad_() for _ in range(2))
    losses = []
    for picked in chosen:
        masked = same.scatter(1, picked[:, None], False)
        losses.append(cross_entropy(slow.masked_fill(masked, -torch.inf), picked))
    repeated = torch.stack(losses).mean()
    direction = summarize_rows(fast, rows_, columns)
    counts = (chosen.T[:, :, None] == direction.positives.columns[:, None, :]).sum(1)
    total = torch.full_like(rows_, draws)
    counted = weighted(direction, counts * direction.positives.valid, total).mean
    assert counted.item() == pytest.approx(repeated.item(), abs=1e-12)
    repeated.backward()
    counted.backward()
    torch.testing.assert_close(fast.grad, slow.grad, atol=1e-12, rtol=0)


def test_draws_are_multinomial_and_spend_all() -> None:
    torch.manual_seed(0)
    positives = torch.tensor([1, 2, 5, 0]).repeat(4000)
    times = draw(positives, positives * 10)
    assert (times.sum(1) == positives * 10).all()
    of_five = times[2::4]
    assert of_five.mean(0) == pytest.approx(torch.full((5,), 10.0), abs=0.2)
    assert of_five.var(0) == pytest.approx(torch.full((5,), 50 * 0.2 * 0.8), rel=0.1)
    assert np.cov(of_five[:, 0], of_five[:, 4])[0, 1] == pytest.approx(-50 * 0.2 * 0.2, rel=0.2)
    assert (times[3::4] == 0).all()


def test_many_draws_come_to_the_limit() -> None:
    torch.manual_seed(1)
    case = ragged(5)
    limit = build("hard")(*case).item()
    once = [build("hard", draws=1, per_positive=0)(*case).item() for _ in range(400)]  # as a recipe has it
    error = np.std(once) / np.sqrt(len(once))
    assert abs(np.mean(once) - limit) < 4 * error
    assert build("hard", draws=20_000)(*case).item() == pytest.approx(limit, abs=0.02)


def test_one_view_and_one_caption_make_all_pair_losses_one() -> None:
    ids = torch.randperm(7)
    logits = torch.randn(7, 7, dtype=torch.float64)
    expected = build("infonce")(logits, ids, ids)
    for name in ("infonce_mask", "hard", "all_positives"):
        torch.testing.assert_close(build(name)(logits, ids, ids), expected)


def test_cosines_without_a_scale_have_a_floor() -> None:
    """With scale 1 nothing can fall below log(1 + (B−1)·e^(−B/(B−1))): 4.548 at B = 256."""
    size = 256
    best = torch.full((size, size), -1 / (size - 1), dtype=torch.float64).fill_diagonal_(1)
    ids = torch.arange(size)
    floor = np.log(1 + (size - 1) * np.exp(-size / (size - 1)))
    assert floor == pytest.approx(4.548, abs=1e-3)
    assert build("infonce")(best, ids, ids).item() == pytest.approx(floor, abs=1e-12)


def test_rows_without_a_partner_do_not_count() -> None:
    """A group of six views and five captions leaves one view out."""
    logits = torch.randn(6, 5, dtype=torch.float64)
    direction = summarize_rows(logits, torch.zeros(6, dtype=torch.int64), torch.zeros(5, dtype=torch.int64))
    assert infonce(direction).counted.tolist() == [True] * 5 + [False]


def test_a_batch_of_one_item_has_nothing_to_learn_from() -> None:
    logits = torch.randn(3, 2, requires_grad=True)
    groups = torch.zeros(3, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    loss = build("hard")(logits, *groups)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(logits.grad if logits.grad is not None else logits, torch.zeros(3, 2))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_extreme_logits_leave_loss_and_gradient_finite(name: str, scale: float) -> None:
    logits, rows_, columns, teacher = ragged(2, scale=scale)
    logits = logits.float().requires_grad_()
    loss = build(name)(logits, rows_, columns, teacher.float())
    loss.backward()
    assert torch.isfinite(loss)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_half_precision_logits_are_compared_in_float32() -> None:
    logits, rows_, columns, teacher = ragged(4)
    found = build("mfh")(logits.bfloat16(), rows_, columns, teacher.bfloat16())
    assert found.dtype == torch.float32
    exact = build("mfh")(logits.bfloat16().double(), rows_, columns, teacher.bfloat16().double())
    assert found.item() == pytest.approx(exact.item(), rel=1e-5)


def test_tricolo_weighs_the_directions() -> None:
    logits, ids = torch.randn(4, 4, dtype=torch.float64), torch.arange(4)
    forward, back = (infonce(summarize_rows(each, ids, ids)).mean for each in (logits, logits.T))
    torch.testing.assert_close(build("tricolo")(logits, ids, ids), 0.25 * forward + 0.75 * back)


def test_robust_xr_starts_as_infonce_and_ends_half_taught() -> None:
    logits, ids = torch.randn(400, 400, dtype=torch.float64), torch.arange(400)
    loss = build("robust_xr")
    torch.testing.assert_close(loss(logits, ids, ids, progress=0.0), build("infonce")(logits, ids, ids))
    torch.manual_seed(0)
    target = torch.softmax(logits, 0) / torch.softmax(logits, 0).sum(1, keepdim=True)
    taught = -(target * logits.log_softmax(1)).sum(1).mean()
    half = build("robust_xr", most=1.0)(logits, ids, ids, progress=1.0)
    back = torch.softmax(logits.T, 0) / torch.softmax(logits.T, 0).sum(1, keepdim=True)
    torch.testing.assert_close(half, (taught - (back * logits.T.log_softmax(1)).sum(1).mean()) / 2)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), progress=st.floats(0, 1), end=st.floats(0, 1))
def test_evenness_moves_with_the_training(seed: int, progress: float, end: float) -> None:
    """At any time it is MFH with that weight and a teacher to whom all columns are alike."""
    logits, rows_, columns, _ = ragged(seed)
    alike = torch.zeros_like(logits)
    found = build("mfh_even", alpha=0.7, alpha_end=end)(logits, rows_, columns, progress=progress)
    expected = build("mfh", alpha=0.7 + (end - 0.7) * progress)(logits, rows_, columns, alike)
    torch.testing.assert_close(found, expected)


def test_evenness_is_gone_in_the_end() -> None:
    case = ragged(6)[:3]
    hard = build("hard")(*case)
    torch.testing.assert_close(build("mfh_even")(*case, progress=1.0), hard)
    assert build("mfh_even")(*case, progress=0.0).item() != pytest.approx(hard.item())


def test_positives_are_found_in_any_order() -> None:
    found = find_positives(torch.tensor([7, 3, 9]), torch.tensor([3, 7, 3, 1, 7, 7]))
    assert found.counts.tolist() == [3, 2, 0]
    assert found.columns[0].tolist() == [1, 4, 5]
    assert found.columns[1, :2].tolist() == [0, 2]
    assert found.valid.tolist() == [[True] * 3, [True, True, False], [False] * 3]


def test_a_teacher_must_be_there() -> None:
    logits, rows_, columns, _ = ragged(0)
    with pytest.raises(ValueError, match="none was given"):
        build("mfh")(logits, rows_, columns)


def test_unknown_names_and_parameters_are_refused() -> None:
    with pytest.raises(MultifoldError, match="no loss 'mhf'; there are: infonce"):
        build("mhf")
    with pytest.raises(MultifoldError, match="'per_positive' is true or false, not 2"):
        build("hard", per_positive=2)
    with pytest.raises(MultifoldError, match="no parameter 'beta'; it has: alpha, draws, per_positive"):
        build("mfh", beta=1.0)
    with pytest.raises(MultifoldError, match="'alpha' is a share between 0 and 1, not 7"):
        build("mfh", alpha=7)
    for draws in (-3, 1.5):
        with pytest.raises(MultifoldError, match="'draws' is a whole number from 0"):
            build("hard", draws=draws)
    assert isinstance(build("mfh", alpha=0.5), Loss)
