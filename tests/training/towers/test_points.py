"""Training with points: their tower, and one group of them with views and captions."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional

from multifold.bundle.point_groups import PointSpec
from tests.training import small
from tests.training.clouds import ALONE, POINTS, data, grouped, recipe, spec
from training import loop, prepare, sides
from training.batches import BatchStream
from training.checkpoint import load_checkpoint
from training.objective import BatchComparison, Objective
from training.recipes.library import load_recipe
from training.recipes.schema import RecipeError, parse_recipe
from training.retrieval.encoder import TorchEncoder
from training.sides import BatchFeatures, SideFeatures
from training.towers import build_model, point_spec
from training.towers.base import TowerError
from training.validation import ValidationSet

GROUP = {"name": "mfh_even", "agg_image": 0.0, "text_image": 1.0, "text_points": 1.0, "image_points": 0.5}


@pytest.mark.parametrize("depth", [0, 2])
def test_the_order_of_points_and_groups_does_not_matter(depth: int) -> None:
    torch.manual_seed(0)
    wanted = recipe(ALONE, {**POINTS, "depth": depth})
    tower = build_model(wanted, 300).eval().points
    assert tower is not None
    groups = torch.from_numpy(grouped(3, spec()))
    with torch.inference_mode():
        features = tower(groups)
        assert features.shape == (3, wanted.geometry.dim)
        assert torch.allclose(features, tower(groups[:, torch.randperm(6)]), atol=1e-5)
        assert torch.allclose(features, tower(groups[:, :, torch.randperm(8)]), atol=1e-5)
        assert not torch.allclose(features, tower(groups * 0.5), atol=1e-2)


def test_a_point_tower_learns_alone(tmp_path: Path) -> None:
    wanted = recipe(ALONE, steps=80, captions=0)
    items, tokenizer = data(wanted)
    model = load_checkpoint(loop.train(wanted, items, tokenizer, tmp_path)).model
    views, captions = small.pictures()
    held_out = ValidationSet(views, captions, prepare.reader(wanted, tokenizer), items.points)
    numbers = held_out.measure(model)
    assert numbers["text_to_shape/R@1"] > 0.8  # by chance 1/16
    assert numbers["shape_to_text/R@1"] > 0.8


def test_views_points_and_captions_learn_as_one_group(tmp_path: Path) -> None:
    wanted = recipe(GROUP, steps=80, captions=0)
    items, tokenizer = data(wanted)
    trained = load_checkpoint(loop.train(wanted, items, tokenizer, tmp_path))
    encoder = TorchEncoder(trained.model, prepare.reader(wanted, tokenizer))
    views, captions = small.pictures()
    assert items.points is not None
    by_points = functional.normalize(torch.from_numpy(encoder.grouped_points(items.points)), dim=1)
    by_views = functional.normalize(torch.from_numpy(encoder.pixels(views[:, 0])), dim=1)
    found = (by_points @ by_views.T).argmax(1)
    assert (found == torch.arange(16)).float().mean() > 0.8
    held_out = ValidationSet(views, captions, encoder.tokenizer, items.points, sees=True, pool="max")
    assert held_out.measure(trained.model)["text_to_shape/R@1"] > 0.8  # by chance 1/16


def test_text_views_and_points_are_compared_two_by_two() -> None:
    wanted = recipe({"name": "tricolo", "pool": "max", "text_points": 1.0, "agg_points": 1.0})
    model = build_model(wanted, 300)
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
    plain, other = small.recipe(), recipe(GROUP)
    bare, _ = small.groups(plain)
    items, _ = data(other)
    for first, second in zip(BatchStream(bare, plain.train), BatchStream(items, plain.train), strict=False):
        assert (first.pixels == second.pixels).all()
        assert (first.tokens == second.tokens).all()
        assert first.points is None
        assert second.points is not None
        assert second.points.shape[0] == plain.train.items
        break


def test_where_no_view_is_compared_none_is_encoded() -> None:
    wanted = recipe(ALONE)
    items, _ = data(wanted)
    model = build_model(wanted, 300)
    batch = next(BatchStream(items, wanted.train))
    Objective(wanted, model)(model, batch, 0.0).backward()
    assert all(parameter.grad is None for parameter in model.image.parameters())
    assert model.points is not None
    assert all(parameter.grad is not None for parameter in model.points.parameters())


def test_chunks_of_points_give_the_same_features() -> None:
    wanted = recipe(GROUP)
    items, _ = data(wanted)
    model = build_model(wanted, 300)
    batch = next(BatchStream(items, wanted.train))
    whole, parts = (sides.encode_batch(model, batch, chunk=chunk).points for chunk in (0, 3))
    assert whole is not None
    assert parts is not None
    assert torch.allclose(whole.features, parts.features, atol=1e-6)


def test_a_point_tower_has_one_token() -> None:
    wanted = recipe(ALONE, {**POINTS, "tokens": 2})
    with pytest.raises(TowerError, match="set tokens = 'class'"):
        build_model(wanted, 300)


def test_an_unknown_key_names_its_neighbour() -> None:
    raw = small.recipe().model_dump(exclude_none=True)
    with pytest.raises(RecipeError, match=r"points\.neighbors; did you mean 'neighbours'"):
        parse_recipe({**raw, "points": {**POINTS, "neighbors": 3}}, "typo")


def test_the_recipe_of_the_repository_builds() -> None:
    wanted = load_recipe("points")
    model = build_model(wanted, 300)
    assert wanted.points is not None
    groups = torch.zeros(2, *grouped_shape(point_spec(wanted.points)))
    assert model.points is not None
    assert model.points(groups).shape == (2, wanted.geometry.dim)


def grouped_shape(wanted: PointSpec) -> tuple[int, int, int]:
    return wanted.groups, wanted.neighbours, wanted.columns
