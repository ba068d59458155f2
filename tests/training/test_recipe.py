"""Recipes: every committed one is valid, and a wrong one names its key."""

from pathlib import Path

import pytest

from training import recipe
from training.recipe import RecipeError

RECIPES = sorted((Path(recipe.__file__).parent / "recipes").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_valid(path: Path) -> None:
    assert recipe.load(path).name


def test_a_wrong_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('name = "x"\nabout = ""\n[data]\n[train]\nstep = 3\n', encoding="utf-8")
    with pytest.raises(RecipeError, match=r"wrong\.toml: train\.step: Extra inputs"):
        recipe.load(path)


def test_broken_toml_and_missing_files_are_said_plainly(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("name = ", encoding="utf-8")
    with pytest.raises(RecipeError, match="is not TOML"):
        recipe.load(path)
    with pytest.raises(RecipeError, match="there is no recipe"):
        recipe.load(tmp_path / "none.toml")
