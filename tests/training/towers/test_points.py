"""Training with points: their tower, and one group of them with views and captions."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training import small
from training import prepare, sides
from training.batches import BatchStream, TrainingBatch
from training.checkpoint import load_checkpoint
from training.objective import BatchComparison, Objective
from training.recipes.library import load_recipe
from training.recipes.schema import Recipe, RecipeError
from training.sides import BatchFeatures, SideFeatures
from training.towers import build_model, point_spec
from training.towers.base import TowerError
from training.validation import ValidationSet

GROUP = {"name": "mfh_even", "agg_image": 0.0, "text_image": 1.0, "text_points": 1.0, "image_points": 0.5}
IN_A_GROUP: dict[str, Any] = {"points": small.POINTS, "loss": GROUP}


def first_batch(wanted: Recipe) -> TrainingBatch:
    return next(BatchStream(small.groups(wanted)[0], wanted.train))


@pytest.mark.parametrize("depth", [0, 2])
def test_the_order_of_points_and_groups_does_not_matter(depth: int) -> None:
    wanted = small.recipe({**small.POINTS_ALONE, "points": {**small.POINTS, "depth": depth}})
    tower = small.model(wanted).eval().points
    assert tower is not None
    groups = torch.from_numpy(small.clouds(small.cloud_spec(), 3))
    with torch.inference_mode():
        features = tower(groups)
        assert features.shape == (3, wanted.geometry.dim)
        assert torch.allclose(features, tower(groups[:, torch.randperm(6)]), atol=1e-5)
        assert torch.allclose(features, tower(groups[:, :, torch.randperm(8)]), atol=1e-5)
        assert not torch.allclose(features, tower(groups * 0.5), atol=1e-2)


def test_a_point_tower_learns_alone(tmp_path: Path) -> None:
    wanted = small.recipe(small.POINTS_ALONE, steps=80, captions=0)
    items, tokenizer = small.groups(wanted)
    held_out = ValidationSet(*small.pictures(), prepare.reader(wanted, tokenizer), items.points)
    numbers = held_out.measure(load_checkpoint(small.train(wanted, tmp_path)).model)
    assert numbers["text_to_shape/R@1"] > 0.8  # by chance 1/16
    assert numbers["shape_to_text/R@1"] > 0.8


def test_text_views_and_points_are_compared_two_by_two() -> None:
    loss = {"name": "tricolo", "pool": "max", "text_points": 1.0, "agg_points": 1.0}
    wanted = small.recipe({"points": small.POINTS, "loss": loss})
    model = small.model(wanted)
    rng = torch.Generator().manual_seed(0)
    views, texts, points = (torch.randn(count, 16, generator=rng) for count in (6, 4, 2))
    seen = SideFeatures(views, torch.tensor([0, 0, 0, 1, 1, 1]))
    read = SideFeatures(texts, torch.tensor([0, 0, 1, 1]))
    sampled = SideFeatures(points, torch.tensor([0, 1]))
    shapes = SideFeatures(torch.stack([views[:3].amax(0), views[3:].amax(0)]), sampled.items)
    compare = BatchComparison(Objective(wanted, model).loss, model.geometry, wanted, 0.0)
    pairs = [(shapes, read), (sampled, read), (sampled, shapes)]
    total = sum(compare(BatchFeatures(*pair), None) for pair in pairs)
    assert torch.allclose(compare.sum_all(BatchFeatures(seen, read, sampled), None), torch.as_tensor(total))


def test_without_points_a_batch_is_what_it_was() -> None:
    first, second = (first_batch(small.recipe(sections)) for sections in (None, IN_A_GROUP))
    assert (first.pixels == second.pixels).all()
    assert (first.tokens == second.tokens).all()
    assert first.points is None
    assert second.points is not None
    assert second.points.shape[0] == small.recipe().train.items


def test_where_no_view_is_compared_none_is_encoded() -> None:
    wanted = small.recipe(small.POINTS_ALONE)
    model = small.model(wanted)
    Objective(wanted, model)(model, first_batch(wanted), 0.0).backward()
    assert all(parameter.grad is None for parameter in model.image.parameters())
    assert model.points is not None
    assert all(parameter.grad is not None for parameter in model.points.parameters())


def test_chunks_of_points_give_the_same_features() -> None:
    wanted = small.recipe(IN_A_GROUP)
    model, batch = small.model(wanted), first_batch(wanted)
    whole, parts = (sides.encode_batch(model, batch, chunk=chunk).points for chunk in (0, 3))
    assert whole is not None
    assert parts is not None
    assert torch.allclose(whole.features, parts.features, atol=1e-6)


def test_what_a_point_tower_does_not_have_is_refused() -> None:
    with pytest.raises(TowerError, match="set tokens = 'class'"):
        small.model(small.recipe({**small.POINTS_ALONE, "points": {**small.POINTS, "tokens": 2}}))
    with pytest.raises(RecipeError, match=r"points\.neighbors; did you mean 'neighbours'"):
        small.recipe({"points": {**small.POINTS, "neighbors": 3}})


def test_the_recipe_of_the_repository_builds() -> None:
    wanted = load_recipe("points")
    assert wanted.points is not None
    spec, tower = point_spec(wanted.points), build_model(wanted, small.VOCABULARY).points
    assert tower is not None
    groups = torch.zeros(2, spec.groups, spec.neighbours, spec.columns)
    assert tower(groups).shape == (2, wanted.geometry.dim)
