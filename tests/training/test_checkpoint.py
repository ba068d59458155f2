"""Fine-tuning: a run that begins with a checkpoint's weights and reads with its tokenizer."""

from pathlib import Path
from typing import Any

import pytest

from multifold.errors import MultifoldError
from tests.training import small
from training import checkpoint
from training.recipes.schema import Recipe
from training.towers import TwoTowerModel


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.train(small.recipe(steps=3), tmp_path_factory.mktemp("first"))


def tuned(trained: Path, sections: dict[str, Any] | None = None) -> Recipe:
    return small.recipe(sections, start=str(trained), steps=2)


def begun_with(recipe: Recipe) -> TwoTowerModel:
    return checkpoint.starting_model(recipe, checkpoint.starting_tokenizer(recipe, []).vocabulary)


def test_it_begins_with_the_weights_and_ends_with_others_of_its_own(trained: Path, tmp_path: Path) -> None:
    recipe, before = tuned(trained), small.weights(trained)
    assert small.same(begun_with(recipe).state_dict(), before)
    path = small.train(recipe, tmp_path / "run")
    moved = trained.rename(trained.with_name("moved.pt"))  # what it began with is needed no more
    try:
        after = checkpoint.load_checkpoint(path)
    finally:
        moved.rename(trained)
    assert not small.same(after.model.state_dict(), before)
    assert after.recipe.train.start == str(trained)


def test_texts_are_read_as_they_were(trained: Path) -> None:
    other = ["entirely different words, from which another vocabulary would be learned"] * 50
    read = checkpoint.load_checkpoint(trained).tokenizer
    assert checkpoint.starting_tokenizer(tuned(trained), other) == read
    assert checkpoint.starting_tokenizer(small.recipe(), other) != read


def test_another_geometry_keeps_the_towers_and_begins_its_own_numbers(trained: Path) -> None:
    begun = begun_with(tuned(trained, {"geometry": {"params": {"scale": 33.3, "scale_learned": 0.0}}}))
    before = checkpoint.load_checkpoint(trained).model
    assert begun.geometry.temperature().item() == pytest.approx(33.3)
    assert before.geometry.temperature().item() != pytest.approx(33.3)
    assert small.same(begun.image.state_dict(), before.image.state_dict())


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"image": {"width": 64}}, "image.* is .*32.* there and .*64.* here; take .* from its recipe, small"),
        ({"text": {"depth": 2}}, r"text\.blocks\.1\.\S+ is missing there"),
        ({"geometry": {"dim": 8}}, r"is 16x\d+ there and 8x\d+ here"),
    ],
)
def test_other_towers_are_refused(trained: Path, sections: dict[str, Any], message: str) -> None:
    with pytest.raises(MultifoldError, match=message):
        begun_with(tuned(trained, sections))


def test_files_that_are_missing_or_torn_are_said_plainly(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(MultifoldError, match="there is no checkpoint"):
        checkpoint.starting_tokenizer(tuned(tmp_path / "none.pt"), [])
    (tmp_path / "torn.pt").write_bytes(trained.read_bytes()[:-1000])
    with pytest.raises(MultifoldError, match="is no checkpoint, or not a whole one"):
        checkpoint.load_checkpoint(tmp_path / "torn.pt")


def test_a_checkpoint_holds_what_it_was_given(trained: Path, tmp_path: Path) -> None:
    loaded = checkpoint.load_checkpoint(trained)
    assert loaded.recipe == small.recipe(steps=3)
    checkpoint.save_checkpoint(tmp_path / "again.pt", loaded)
    assert small.same(small.weights(tmp_path / "again.pt"), loaded.model.state_dict())
    assert [path.name for path in tmp_path.iterdir()] == ["again.pt"]
