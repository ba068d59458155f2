"""Recipes: found, extended, changed, printed; and a mistake is told with what was probably meant."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from multifold.cli import main
from training.recipes import library
from training.recipes.library import merge
from training.recipes.schema import RecipeError, parse_recipe

PLAIN = 'name = "plain"\nabout = "x"\n[data]\n[train]\nsteps = 3\nrate = 0.1\n'


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", library.shipped_names())
def test_every_shipped_recipe_is_valid_and_printed_in_full(name: str) -> None:
    recipe = library.load_recipe(name)
    assert recipe.name
    assert parse_recipe(tomllib.loads(library.to_toml(recipe)), "again") == recipe


def test_what_is_printed_says_every_default() -> None:
    raw = tomllib.loads(library.to_toml(library.load_recipe("demo")))
    assert raw["train"]["weight_decay"] == 0.05
    assert raw["loss"]["entailment"]["k"] == 0.1
    assert raw["image"]["stem"] == [16, 32, 64]


def test_a_recipe_extends_another_by_path_or_name(tmp_path: Path) -> None:
    written(tmp_path, "plain", PLAIN)
    middle = 'extends = "plain"\nname = "middle"\n[train]\nrate = 0.2\n'
    (tmp_path / "sub").mkdir()
    written(tmp_path / "sub", "middle", middle.replace('"plain"', '"../plain.toml"'))
    last = library.load_recipe(
        written(tmp_path, "last", 'extends = "sub/middle.toml"\n[geometry]\ndim = 7\n')
    )
    assert (last.name, last.train.steps, last.train.rate, last.geometry.dim) == ("middle", 3, 0.2, 7)
    ours = library.load_recipe(written(tmp_path, "ours", 'extends = "demo"\n[train]\nsteps = 1\n'))
    assert ours.image == library.load_recipe("demo").image
    assert ours.train.steps == 1


def test_circles_are_refused(tmp_path: Path) -> None:
    written(tmp_path, "a", 'extends = "b"\n')
    written(tmp_path, "b", 'extends = "a"\n')
    with pytest.raises(RecipeError, match=r"in a circle: a -> b -> a"):
        library.load_recipe(tmp_path / "a.toml")
    with pytest.raises(RecipeError, match="must be the name or the path of one"):
        library.load_recipe(written(tmp_path, "many", 'extends = ["a", "b"]\n'))
    with pytest.raises(RecipeError, match="there is no recipe nowhere"):
        library.load_recipe(written(tmp_path, "lost", 'extends = "nowhere"\n'))


@pytest.mark.parametrize(
    ("base", "over", "expected"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 5}}, {"a": 1, "b": {"c": 5, "d": 3}}),
        ({"kind": "small", "width": 3}, {"kind": "bert", "depth": 1}, {"kind": "bert", "depth": 1}),
        (
            {"kind": "bert", "width": 3},
            {"kind": "bert", "depth": 1},
            {"kind": "bert", "width": 3, "depth": 1},
        ),
        ({"name": "a", "dim": 3, "params": {"x": 1}}, {"name": "b"}, {"name": "b", "dim": 3}),
        ({"name": "a", "params": {"x": 1}}, {"params": {"y": 2}}, {"name": "a", "params": {"x": 1, "y": 2}}),
    ],
)
def test_sections_are_laid_over_each_other(
    base: dict[str, Any], over: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = repr(base)
    assert merge(base, over) == expected
    assert repr(base) == before


def test_keys_are_set_from_outside(tmp_path: Path) -> None:
    path = written(tmp_path, "plain", PLAIN)
    changes = ["train.rate=1e-4", "loss.name=mfh", "image.stem=[8, 16]", "geometry.params.scale=10"]
    recipe = library.load_recipe(path, [*changes, "geometry.params.scale_max=inf", "about=a = b"])
    assert parse_recipe(tomllib.loads(library.to_toml(recipe)), "again") == recipe
    assert (recipe.train.rate, recipe.train.steps, recipe.loss.name) == (1e-4, 3, "mfh")
    assert recipe.model_dump()["image"]["stem"] == (8, 16)
    assert recipe.geometry.params == {"scale": 10, "scale_max": float("inf")}
    assert recipe.about == "a = b"
    for wrong in ("train.rate", "=3", "train..rate=3"):
        with pytest.raises(RecipeError, match=r"--set takes section\.key=value"):
            library.load_recipe(path, [wrong])
    with pytest.raises(RecipeError, match=r"plain\.toml with train\.stps=3: nothing reads"):
        library.load_recipe(path, ["train.stps=3"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[train]\nstep = 3\n", r"nothing reads the key train\.step; did you mean 'steps'\?"),
        ("[trian]\nstep = 3\n", r"nothing reads the key trian; did you mean 'train'\?"),
        ("[image]\nkind = 'openclip'\nmodl = 'x'\n", r"key image\.modl; did you mean 'model'\?"),
        ("[text]\nwidht = 3\n", r"key text\.widht; did you mean 'width'\?"),
        ("[loss.entailment]\nwight = 3\n", r"key loss\.entailment\.wight; did you mean 'weight'\?"),
        ("[teacher]\nzzz = 3\n", r"key teacher\.zzz; there are: momentum, scale"),
        ("[train]\nsteps = 'many'\n", r"train\.steps: Input should be a valid integer"),
        ("[train]\nsteps = -4\n", r"train\.steps: Input should be greater than or equal to 1"),
        ("[train]\nrate = nan\n", r"train\.rate: Input should be"),
        ("[train]\nrate = -1e-3\n", r"train\.rate: Input should be greater than 0"),
        ("[train]\nbetas = [0.9, 2.0]\n", r"train\.betas\.1: Input should be less than 1"),
        ("[train]\nseed = -1\n", r"train\.seed: Input should be greater than or equal to 0"),
        ("[train]\nwarmup = -1\n", r"train\.warmup: Input should be greater than or equal to 0"),
        (
            "[train]\nweight_decay = -0.1\n",
            r"train\.weight_decay: Input should be greater",
        ),
        ("[geometry]\ndim = 0\n", r"geometry\.dim: Input should be greater than or equal to 1"),
        ("[loss]\ntext_image = -1\n", r"loss\.text_image: Input should be greater than or equal to 0"),
        ("[text]\nwidth = 96\nheads = 5\n", r"text: 5 heads cannot share a width of 96 equally"),
        ("[train]\nitems = 1\n", r"train\.items: Input should be greater than or equal to 2"),
        ("[train]\nseed = 99999999999999999999\n", r"train\.seed: Input should be less than"),
        ("[train]\nshift = 400\n", r"recipe: train\.shift = 400 moves views of 96 out of sight"),
        ("[image]\nsize = 30\n", r"image: with this stem the size is a multiple of 16, not 30"),
        ("[image]\nstem = []\n", r"image\.stem: Tuple should have at least 1 item"),
        ("[text]\ncontext = 2\n", r"text\.context: Input should be greater than or equal to 3"),
        ("[text]\nvocabulary = 20\n", r"text\.vocabulary: Input should be greater than or equal to 259"),
        ("[text]\nkind = 'brt'\n", r"text: Input tag 'brt'.*'small', 'bert', 'openclip'"),
    ],
)
def test_a_wrong_key_is_told_with_the_right_one(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, "wrong", 'name = "x"\nabout = ""\n[data]\n' + text)
    with pytest.raises(RecipeError, match=message):
        library.load_recipe(path)


def test_broken_toml_and_missing_files_are_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="is not TOML"):
        library.load_recipe(written(tmp_path, "broken", "name = "))
    with pytest.raises(RecipeError, match=r"there is no recipe dmo; did you mean demo\?"):
        library.load_recipe("dmo")
    with pytest.raises(RecipeError, match=r"there is no recipe \S+none\.toml; `multifold train --list`"):
        library.load_recipe(tmp_path / "none.toml")


def test_the_command_lists_and_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--list"]) == 0
    assert re.search(r"^  demo +It knows procedural furniture", capsys.readouterr().out, re.MULTILINE)
    assert main(["train", "demo", "--show", "--set", "train.steps=9", "views.size=64"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["train"]["steps"] == 9
    assert main(["train", "dmo"]) == 2
    assert "did you mean demo?" in capsys.readouterr().err
