"""Blocks of rows give the loss and the gradients of the whole matrix, without ever holding it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.training.losses.test_losses import ragged
from training.geometries import build as geometry
from training.losses import LOSSES, build
from training.tiled_loss import FeaturePair, tiled_loss

TILEABLE = [name for name, loss in LOSSES.items() if loss.target != "swapped"]


def case(seed: int) -> tuple[list[Tensor], Tensor, Tensor]:
    """Features of queries and gallery, a student's and a teacher's, and ragged groups."""
    _, rows, columns, _ = ragged(seed, items=5)
    generator = torch.Generator().manual_seed(seed)
    sizes = [len(rows), len(columns), len(rows), len(columns)]
    return [torch.randn(size, 6, generator=generator) for size in sizes], rows, columns


@pytest.mark.parametrize("name", TILEABLE)
@pytest.mark.parametrize(("metric", "block"), [("lorentz", 1), ("clip", 4), ("lorentz", 100)])
def test_it_equals_the_whole_matrix(name: str, metric: str, block: int) -> None:
    features, rows, columns = case(block)
    compare = geometry(metric, 6)
    whole, parts = ([f.clone().requires_grad_() for f in features[:2]] for _ in range(2))
    with torch.no_grad():
        teacher = compare.logits(features[2], features[3])
    expected = build(name)(compare.logits(*whole), rows, columns, teacher)
    wanted = torch.autograd.grad(expected, [*whole, *_learned(compare)])
    taught = FeaturePair(features[2], features[3], compare.logits)
    found = tiled_loss(
        build(name), FeaturePair(parts[0], parts[1], compare.logits), rows, columns, block, taught
    )
    given = torch.autograd.grad(found, [*parts, *_learned(compare)])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(given, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_random_draws_are_the_same_on_the_way_back() -> None:
    """What is computed again in backward must be what was computed: finite differences would not forgive."""
    rows, columns = torch.tensor([0, 1, 0, 2, 1]), torch.tensor([2, 1, 0, 0, 1, 2])
    query, gallery = (torch.randn(n, 3, dtype=torch.float64, requires_grad=True) for n in (5, 6))

    def loss(query: Tensor, gallery: Tensor) -> Tensor:
        torch.manual_seed(3)
        pair = FeaturePair(query, gallery, lambda q, g: q @ g.T)
        return tiled_loss(build("hard", draws=1), pair, rows, columns, 2)

    assert torch.autograd.gradcheck(loss, (query, gallery))


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation made."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numbers = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        out = func(*args, **(kwargs or {}))
        for each in out if isinstance(out, tuple | list) else [out]:
            self.numbers = max(self.numbers, each.numel() if isinstance(each, Tensor) else 0)
        return out


def test_nothing_as_large_as_the_matrix_is_ever_made() -> None:
    groups = torch.arange(300).repeat_interleave(2)
    query, gallery = (torch.randn(600, 8, requires_grad=True) for _ in range(2))
    compare = geometry("clip", 8)
    with Largest() as largest:
        tiled_loss(build("hard"), FeaturePair(query, gallery, compare.logits), groups, groups, 20).backward()
    assert 20 * 600 <= largest.numbers <= 2 * 20 * 600


def test_a_loss_that_needs_the_whole_matrix_is_refused() -> None:
    features, rows, columns = case(0)
    pair = FeaturePair(features[0], features[1], lambda q, g: q @ g.T)
    with pytest.raises(ValueError, match="needs the whole matrix"):
        tiled_loss(build("robust_xr"), pair, rows, columns, 4)


def _learned(module: torch.nn.Module) -> list[Tensor]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]
