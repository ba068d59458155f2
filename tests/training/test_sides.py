"""A step in chunks is the step of the whole batch, in the memory of one chunk."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from multifold.errors import MultifoldError
from tests.training import small
from tests.training.towers import kinds as towers
from training.batches import BatchStream
from training.objective import Objective
from training.recipes.schema import Recipe
from training.run import TrainingRun
from training.sides import encode_batch, encode_in_chunks

TWO_WAYS = {"name": "mfh", "text_image": 0.5, "agg_image": 0.5}
ALL_TOKENS = {"image": {"tokens": "all"}, "text": {"tokens": "all"}}
KINDS: dict[str, dict[str, Any]] = {
    "clip": {"loss": TWO_WAYS},
    "lorentz with cones": {"geometry": {"name": "lorentz"}, "loss": {"entailment": {"weight": 0.2}}},
    "euclidean": {"geometry": {"name": "euclidean_squared"}},
    "oblique": {"geometry": {"name": "oblique", "params": {"m": 4}}},
    "cloud": {"geometry": {"name": "cloud_imq", "params": {"frequencies": 32}}, **ALL_TOKENS},
    "checkpointed blocks": {"image": {"checkpointing": True}, "text": {"checkpointing": True}},
}


def recipe(chunk: int, sections: dict[str, Any] | None = None) -> Recipe:
    return small.recipe(sections, items=5, views=0, captions=0, chunk=chunk)


def gradients(wanted: Recipe) -> tuple[float, dict[str, Tensor]]:
    items, _ = small.groups(wanted)
    model = small.model(wanted)
    loss = Objective(wanted, model)(model, next(BatchStream(items, wanted.train)), 0.5)
    loss.backward()
    return loss.item(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", KINDS)
def test_loss_and_gradient_are_those_of_the_whole_batch(name: str) -> None:
    """Ten views and fifteen captions in chunks of four: neither is a multiple."""
    whole, expected = gradients(recipe(0, KINDS[name]))
    loss, found = gradients(recipe(4, KINDS[name]))
    assert loss == pytest.approx(whole, abs=1e-5)
    assert found.keys() == expected.keys()
    assert len(found) > 20
    for parameter, gradient in expected.items():
        near = 1e-5 * max(1.0, gradient.abs().max().item())
        torch.testing.assert_close(found[parameter], gradient, atol=near, rtol=1e-4, msg=parameter)


def test_chance_is_replayed() -> None:
    """With dropout, the second encoding must drop what the first one did, or the gradient is another's."""
    torch.manual_seed(0)
    first = nn.Linear(6, 50)
    tower = nn.Sequential(first, nn.Dropout(0.5), nn.Linear(50, 3))
    observed = torch.randn(10, 6)

    def slope(encode: Any) -> Tensor:  # noqa: ANN401
        torch.manual_seed(1)
        tower.zero_grad()
        encode().square().sum().backward()
        assert first.weight.grad is not None
        return first.weight.grad.clone()

    plain = slope(lambda: torch.cat([tower(part) for part in observed.split(4)]))
    torch.testing.assert_close(slope(lambda: encode_in_chunks(tower, observed.split(4))), plain)
    torch.testing.assert_close(
        slope(lambda: encode_in_chunks(tower, [observed])), slope(lambda: tower(observed))
    )


def test_less_is_kept_for_backward() -> None:
    def kept(chunk: int) -> int:
        wanted = recipe(chunk)
        items, _ = small.groups(wanted)
        model = small.model(wanted)
        own = {parameter.data_ptr() for parameter in model.parameters()}
        sizes: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            if tensor.data_ptr() not in own:
                sizes[tensor.data_ptr()] = tensor.nbytes
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            encode_batch(model, next(BatchStream(items, wanted.train)), 1, chunk)
        return sum(sizes.values())

    assert kept(2) < kept(0) / 20


def test_statistics_of_a_batch_do_not_go_with_chunks(tiny_models: None) -> None:
    resnet: dict[str, Any] = {"image": towers.RESNET_IMAGE, "geometry": {"dim": towers.DIM}}
    still = {**resnet, "image": {**towers.RESNET_IMAGE, "still": True}}
    items, tokenizer = small.groups(recipe(4))
    with pytest.raises(MultifoldError, match="chunks are exact without BatchNorm only: set still = true"):
        TrainingRun(recipe(4, resnet), items, tokenizer, torch.device("cpu"))
    model = TrainingRun(recipe(4, still), items, tokenizer, torch.device("cpu")).model
    before = {name: buffer.clone() for name, buffer in model.image.named_buffers()}
    pictures = towers.pixels(64)
    model.train()
    torch.testing.assert_close(model.image(pictures)[:2], model.image(pictures[:2]), atol=1e-5, rtol=1e-4)
    assert small.same(dict(model.image.named_buffers()), before)
    assert all(parameter.requires_grad for parameter in model.image.parameters())
