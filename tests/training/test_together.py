"""Views read together: off, they are the mean, bit for bit; on, their order does not matter."""

from pathlib import Path
from typing import Any

import pytest
import torch

from multifold.errors import MultifoldError
from tests.training import small, towers
from training import loop, prepare, sides
from training.batches import BatchStream
from training.checkpoint import Checkpoint, load_checkpoint
from training.export.bundle import export_bundle
from training.objective import Objective
from training.recipes.schema import Recipe, RecipeError, TogetherSection, parse_recipe
from training.sides import SideFeatures, pool_items
from training.towers import build_model
from training.towers.base import TowerError
from training.towers.together import SetEncoder, set_encoder
from training.validation import ValidationSet


def recipe(together: dict[str, int], **train: object) -> Recipe:
    raw = small.recipe(views=0, **train).model_dump(exclude_none=True)
    loss = {"name": "mfh_even", "agg_image": 1.0, "text_image": 0.5}
    return parse_recipe({**raw, "together": together, "loss": loss}, "together")


def opened(length: int = 16, blocks: int = 2) -> SetEncoder:
    """A set encoder whose last matrix is no longer zero."""
    torch.manual_seed(0)
    encoder = SetEncoder(length, blocks, 2)
    torch.nn.init.normal_(encoder.add.weight, std=0.2)
    return encoder.eval()


def test_without_blocks_there_is_none_and_the_mean_is_read() -> None:
    assert set_encoder(TogetherSection(), 16) is None
    off = recipe({})
    items, _ = small.groups(off)
    model = build_model(off, 300)
    assert model.together is None
    batch = next(BatchStream(items, off.train))
    seen = sides.encode_batch(model, batch)
    assert seen.together is None
    plain = small.recipe().model_dump(exclude_none=True) | {"loss": off.loss.model_dump()}
    before = parse_recipe(plain, "plain")
    torch.manual_seed(1)
    first = Objective(off, model)(model, batch, 0.0)
    torch.manual_seed(1)
    assert torch.equal(first, Objective(before, model)(model, batch, 0.0))


def test_a_fresh_set_encoder_is_the_mean_bit_for_bit() -> None:
    features, of = torch.randn(11, 16), torch.tensor([0, 1, 2, 0, 1, 2, 0, 0, 2, 2, 1])
    fresh = SetEncoder(16, 2, 2)
    mean = pool_items(SideFeatures(features, of), "mean", False).features
    assert torch.equal(fresh(features, of), mean)


def test_the_order_of_views_does_not_matter() -> None:
    encoder, features = opened(), torch.randn(12, 16)
    of = torch.arange(2).repeat_interleave(6)
    together = encoder(features, of)
    assert not torch.allclose(together, features.view(2, 6, 16).mean(1), atol=1e-3)
    for seed in range(3):
        order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
        assert torch.allclose(encoder(features[order], of[order]), together, atol=1e-6)


@pytest.mark.parametrize("views", [1, 2, 5, 12])
def test_items_of_any_number_of_views_do_not_touch_each_other(views: int) -> None:
    encoder, features = opened(), torch.randn(views + 3, 16)
    of = torch.tensor([0] * views + [1] * 3)
    together = encoder(features, of)
    assert torch.allclose(together[0], encoder(features[:views], of[:views])[0], atol=1e-6)
    assert torch.allclose(together[1], encoder(features[views:], of[views:] - 1)[0], atol=1e-6)


@pytest.mark.parametrize("how", [{"blocks": 1, "heads": 2}, {"last": 1}])
def test_it_learns_with_the_towers(tmp_path: Path, how: dict[str, int]) -> None:
    wanted = recipe(how, steps=120, captions=0)
    items, tokenizer = small.groups(wanted)
    model = load_checkpoint(loop.train(wanted, items, tokenizer, tmp_path)).model
    assert model.together is None or model.together.add.weight.abs().max() > 1e-4
    views, captions = small.pictures()
    numbers = ValidationSet(views, captions, prepare.reader(wanted, tokenizer)).measure(model)
    assert numbers["text_to_shape/R@1"] > 0.6  # by chance 1/16


def joint_towers() -> list[tuple[str, Any]]:
    """A small tower read at its mean, one read at class tokens, and open_clip's."""
    return [
        (kind, towers.build(*towers.KINDS[kind]).image) for kind in ("small", "small, class tokens", "vit")
    ]


def test_the_last_blocks_attend_over_the_views_of_an_item(tmp_path: Path) -> None:
    towers.register(tmp_path)
    for kind, tower in joint_towers():
        tower.eval()
        image = towers.recipe(*towers.KINDS[kind]).image
        assert image.kind != "bundle"
        size = image.size
        pixels = torch.randint(0, 256, (7, size, size, 3), dtype=torch.uint8)
        of = torch.tensor([0, 1, 0, 2, 1, 0, 1])
        with torch.inference_mode():
            together = tower.read_together(pixels, of, 1)
            order = torch.tensor([6, 5, 4, 3, 2, 1, 0])
            assert torch.allclose(tower.read_together(pixels[order], of[order], 1), together, atol=1e-5)
            for item in range(3):  # items do not touch each other
                alone = pixels[of == item]
                first = tower.read_together(alone, torch.zeros(len(alone), dtype=torch.int64), 1)
                assert torch.allclose(first[0], together[item], atol=1e-5)
            assert torch.allclose(together[2], tower(pixels[3:4])[0], atol=1e-5)  # a single view is itself
            apart = tower.read_together(pixels, of, 0)
            means = torch.stack([tower(pixels[of == item]).mean(0) for item in range(3)])
            assert torch.allclose(apart, means, atol=1e-5)  # without such blocks it is the mean
            assert not torch.allclose(together[:2], means[:2], atol=1e-4)


def test_the_last_blocks_need_a_transformer_of_that_depth(tmp_path: Path) -> None:
    towers.register(tmp_path)
    for kind, last, said in (("resnet", 1, "needs a vision transformer"), ("small", 3, "has 2 blocks")):
        raw = towers.recipe(*towers.KINDS[kind]).model_dump(exclude_none=True)
        with pytest.raises(TowerError, match=said):
            build_model(parse_recipe({**raw, "together": {"last": last}}, "deep"), towers.VOCABULARY)
    with pytest.raises(RecipeError, match="not by both"):
        recipe({"blocks": 1, "last": 1})


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(TowerError, match="3 heads cannot share features of length 16"):
        set_encoder(TogetherSection(blocks=1, heads=3), 16)
    raw = recipe({"blocks": 1}).model_dump(exclude_none=True)
    alone = parse_recipe({**raw, "loss": {"agg_image": 0.0, "text_image": 1.0}}, "alone")
    with pytest.raises(MultifoldError, match="learns from agg_image or agg_both"):
        Objective(alone, build_model(alone, 300))


def test_a_bundle_of_what_it_cannot_search_is_refused(tmp_path: Path) -> None:
    changes = {"points": {"points": 64}, "loss": {"agg_image": 0.0, "text_points": 1.0}}
    wanted = parse_recipe({**small.recipe().model_dump(exclude_none=True), **changes}, "unserved")
    views, captions = small.pictures()
    trained = Checkpoint(wanted, small.tokenizer(captions), build_model(wanted, 300))
    with pytest.raises(MultifoldError, match="by their points alone"):
        export_bundle(trained, views, captions, tmp_path / "bundle", {})
    assert not (tmp_path / "bundle").exists()
