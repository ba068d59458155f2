"""Fine-tuning: a run that begins with a checkpoint's weights and reads with its tokenizer."""

from pathlib import Path

import pytest
import torch

from multifold.errors import MultifoldError
from tests.training import small
from training import checkpoint, loop
from training.recipes.schema import Recipe, parse_recipe
from training.towers import TwoTowerModel


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe = small.recipe(steps=3)
    groups, tokenizer = small.groups(recipe)
    return loop.train(recipe, groups, tokenizer, tmp_path_factory.mktemp("first"))


def tuned(trained: Path, **sections: dict[str, object]) -> Recipe:
    raw = small.recipe(start=str(trained), steps=2).model_dump()
    return parse_recipe(
        {**raw, **{name: {**raw[name], **values} for name, values in sections.items()}}, "tuned"
    )


def begun_with(recipe: Recipe) -> TwoTowerModel:
    return checkpoint.starting_model(recipe, checkpoint.starting_tokenizer(recipe, []).vocabulary)


def test_it_begins_with_the_weights_and_ends_with_others(trained: Path, tmp_path: Path) -> None:
    recipe = tuned(trained)
    before = checkpoint.load_checkpoint(trained).model.state_dict()
    begun = begun_with(recipe).state_dict()
    assert all(torch.equal(begun[name], weight) for name, weight in before.items())
    groups, tokenizer = small.groups(recipe)
    after = checkpoint.load_checkpoint(loop.train(recipe, groups, tokenizer, tmp_path))
    assert any(not torch.equal(before[name], weight) for name, weight in after.model.state_dict().items())
    assert after.recipe.train.start == str(trained)


def test_a_checkpoint_needs_nothing_that_it_began_with(trained: Path, tmp_path: Path) -> None:
    recipe = tuned(trained)
    groups, tokenizer = small.groups(recipe)
    path = loop.train(recipe, groups, tokenizer, tmp_path)
    moved = trained.rename(trained.with_name("moved.pt"))
    try:
        assert checkpoint.load_checkpoint(path).model
    finally:
        moved.rename(trained)


def test_texts_are_read_as_they_were(trained: Path) -> None:
    other = ["entirely different words, from which another vocabulary would be learned"] * 50
    assert (
        checkpoint.starting_tokenizer(tuned(trained), other) == checkpoint.load_checkpoint(trained).tokenizer
    )
    assert (
        checkpoint.starting_tokenizer(small.recipe(), other) != checkpoint.load_checkpoint(trained).tokenizer
    )


def test_another_geometry_keeps_the_towers_and_begins_its_own_numbers(trained: Path) -> None:
    recipe = tuned(trained, geometry={"params": {"scale": 33.3, "scale_learned": 0.0}})
    begun = begun_with(recipe)
    before = checkpoint.load_checkpoint(trained).model
    assert begun.geometry.temperature().item() == pytest.approx(33.3)
    assert before.geometry.temperature().item() != pytest.approx(33.3)
    for name, weight in before.image.state_dict().items():
        assert torch.equal(begun.image.state_dict()[name], weight)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"image": {"width": 64}}, "image.* is .*32.* there and .*64.* here; take .* from its recipe, small"),
        ({"text": {"depth": 2}}, r"text\.blocks\.1\.\S+ is missing there"),
        ({"geometry": {"dim": 8}}, r"is 16x\d+ there and 8x\d+ here"),
    ],
)
def test_other_towers_are_refused(
    trained: Path, sections: dict[str, dict[str, object]], message: str
) -> None:
    with pytest.raises(MultifoldError, match=message):
        begun_with(tuned(trained, **sections))


def test_a_missing_checkpoint_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(MultifoldError, match="there is no checkpoint"):
        checkpoint.starting_tokenizer(tuned(tmp_path / "none.pt"), [])
