"""What everyone relies on, whatever the tower: its shape, its length, batch mates, pads, frozen parts."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from tests.training.towers import kinds as towers
from training.recipes.schema import TowerSection
from training.towers import image_spec, text_spec
from training.towers.assemble import set_learning
from training.towers.base import BlockStack, Tower, TowerError, pick_rows
from training.towers.small import TransformerBlock
from training.towers.text import causal_mask
from training.towers.tokenizers import TrainedTokenizer

pytestmark = pytest.mark.usefixtures("tiny_models")

TOKENIZER = TrainedTokenizer("", 1, towers.VOCABULARY - 1, 0)


@pytest.mark.parametrize("kind", towers.KINDS)
def test_both_towers_emit_features_of_the_geometry(kind: str) -> None:
    model, wanted = towers.built(kind), towers.recipe(*towers.KINDS[kind])
    spec = image_spec(wanted.image)
    with torch.inference_mode():
        seen, read = model.image(towers.pixels(spec.size)), model.text(towers.tokens())
        assert seen.shape == read.shape == (4, model.geometry.feature_dim)
        assert torch.isfinite(model.geometry.logits(read, seen)).all()
    torch.testing.assert_close(model.image.mean / 255, torch.tensor(spec.mean))


@pytest.mark.parametrize("kind", towers.KINDS)
def test_a_text_tower_tells_its_length_as_the_recipe_does(kind: str) -> None:
    model, spec = towers.built(kind), text_spec(towers.recipe(*towers.KINDS[kind]).text, TOKENIZER)
    assert (model.text.length, model.text.context) == (spec.length, spec.context)
    assert spec.length == ("dynamic" if kind in DYNAMIC else "fixed")


DYNAMIC = ("small", "small, hyperbolic, no final norm", "vit", "resnet")


@pytest.mark.parametrize("kind", DYNAMIC)
def test_text_may_be_cut_after_its_end_where_it_says_so(kind: str) -> None:
    model, ids = towers.built(kind), towers.tokens()
    with torch.inference_mode():
        whole = model.text(ids)
        torch.testing.assert_close(model.text(ids[:3, :9]), whole[:3])
        torch.testing.assert_close(model.text(ids[:1, :2]), whole[:1])


@pytest.mark.parametrize("kind", ["small, cloud", "bert", "bert, class tokens", "bert, cloud"])
def test_masked_pads_change_nothing(kind: str) -> None:
    model, ids = towers.built(kind), towers.tokens()
    with torch.inference_mode():
        whole = model.text(ids)
        torch.testing.assert_close(model.text(ids[:3, :9]), whole[:3])
        torch.testing.assert_close(model.text(pad(ids[:3, :9], (0, 2))), whole[:3])


@pytest.mark.parametrize("kind", towers.KINDS)
def test_an_observation_ignores_its_batch_mates(kind: str) -> None:
    model = towers.built(kind)
    pictures, ids = towers.pixels(image_spec(towers.recipe(*towers.KINDS[kind]).image).size), towers.tokens()
    with torch.inference_mode():
        torch.testing.assert_close(model.image(pictures)[2:3], model.image(pictures[2:3]))
        torch.testing.assert_close(model.text(ids)[1:2], model.text(ids[1:2]))


@pytest.mark.parametrize("kind", ["small", "bert, class tokens", "vit, class tokens", "vit, cloud", "siglip"])
def test_checkpointing_changes_no_gradient(kind: str) -> None:
    plain = towers.built(kind).train()
    saving = copy.deepcopy(plain)
    for tower in (saving.image, saving.text):
        tower.set_checkpointing(True)
    pictures, ids = towers.pixels(image_spec(towers.recipe(*towers.KINDS[kind]).image).size), towers.tokens()
    for model in (plain, saving):
        model.geometry.logits(model.text(ids), model.image(pictures)).square().sum().backward()
    pairs = zip(plain.named_parameters(), saving.parameters(), strict=True)
    for (name, one), other in pairs:
        torch.testing.assert_close(one.grad, other.grad, msg=name)


HEADS = {"image.project.weight", "text.project.weight"}
LAST = {f"{side}.{part}" for side in ("image", "text") for part in ("blocks.1", "norm", "project")}


@pytest.mark.parametrize(
    ("image", "text", "geometry", "expected"),
    [
        (
            {**towers.VIT_IMAGE, "trainable": "head"},
            {**towers.VIT_TEXT, "trainable": "head"},
            towers.CLIP,
            HEADS,
        ),
        (  # fresh tokens and a scale learn with the head
            {**towers.VIT_IMAGE, "trainable": "head", "tokens": 3},
            {**towers.VIT_TEXT, "trainable": "head", "tokens": 3, "scale": "learned"},
            towers.MULTI,
            {*HEADS, "image.classes", "text.tail", "text.scale.log_scale"},
        ),
        (  # a geometry that both share stays as it was
            {**towers.SMALL_IMAGE, "tokens": "all", "trainable": "head"},
            {**towers.BERT, "tokens": "all", "trainable": "head"},
            towers.CLOUD,
            {f"{side}.project.{part}" for side in ("image", "text") for part in ("points", "weights")},
        ),
        (
            {**towers.VIT_IMAGE, "trainable": 1},
            {**towers.SMALL_TEXT, "trainable": 1},
            towers.CLIP,
            LAST,
        ),
    ],
    ids=["heads", "fresh", "shared", "last blocks"],
)
def test_a_tower_may_learn_in_part(
    image: dict[str, Any], text: dict[str, Any], geometry: dict[str, Any], expected: set[str]
) -> None:
    model = towers.build(image, text, geometry)
    names = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    scales = {name for name in names if "geometry." in name}
    found = names - scales
    if expected is LAST:
        found = {".".join(name.split(".")[: 3 if "blocks" in name else 2]) for name in found}
    assert found == expected
    assert {name.split(".")[-1] for name in scales} in ({"log_scale"}, {"raw_scale"})


def test_a_frozen_resnet_keeps_its_statistics() -> None:
    model = towers.build({**towers.RESNET_IMAGE, "trainable": "head"}, towers.SMALL_TEXT, towers.CLIP).train()
    before = copy.deepcopy(model.image.state_dict())
    model.image(towers.pixels(64)).sum().backward()
    after = model.image.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert model.image.network.attnpool.c_proj.weight.grad is not None
    assert model.image.network.conv1.weight.grad is None


@pytest.mark.parametrize(
    ("image", "text", "geometry", "said"),
    [
        ({"tokens": "all"}, {}, towers.CLIP, "need each other"),
        ({}, {}, towers.CLOUD, "need each other"),
        ({"tokens": 3}, {}, towers.CLIP, "clip takes 1 class tokens at most, not 3"),
        ({"tokens": 2}, {}, towers.MULTI, "oblique_multi takes 3 class tokens at most, not 2"),
        ({}, {}, towers.MULTI, "not 1"),
        ({"trainable": 3}, {}, towers.CLIP, "trainable = 3, but the tower lets 2 blocks learn alone"),
        ({}, {"pads": "own"}, towers.CLIP, "pads = 'own' is for tokens = 'all'"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    image: dict[str, Any], text: dict[str, Any], geometry: dict[str, Any], said: str
) -> None:
    with pytest.raises(TowerError, match=said):
        towers.build({**towers.SMALL_IMAGE, **image}, {**towers.SMALL_TEXT, **text}, geometry)


def test_a_tower_without_a_head_cannot_be_frozen_to_it() -> None:
    class Headless(Tower):
        def __init__(self) -> None:
            super().__init__()
            self.project, self.scale = torch.nn.Identity(), None
            self.blocks = towers.built("small").image.blocks

        def tokens(self, observed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return observed, observed.bool()

    with pytest.raises(TowerError, match="nothing would learn"):
        set_learning(Headless(), TowerSection(trainable="head"))


@pytest.mark.parametrize("mask", [None, causal_mask(7)])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_rows_computed_alone_are_those_of_the_whole(mask: Tensor | None, checkpointing: bool) -> None:
    torch.manual_seed(0)
    stack, x = BlockStack(TransformerBlock(12, 3) for _ in range(2)), torch.randn(4, 7, 12)
    stack.checkpointing = checkpointing
    rows = torch.tensor([[6, 0], [2, 2], [0, 5], [3, 1]])
    alone, whole = stack(x, mask, rows), pick_rows(stack(x, mask), rows)
    torch.testing.assert_close(alone, whole)
    ours, theirs = (torch.autograd.grad(y.square().sum(), list(stack.parameters())) for y in (alone, whole))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_a_text_tower_mixes_only_the_row_that_is_read() -> None:
    model, mixed = towers.built("small"), []
    model.text.blocks[-1].widen.register_forward_hook(lambda *seen: mixed.append(seen[2].shape[1]))
    model.text(towers.tokens())
    assert mixed == [1]
