"""A trained model on disk (recipe, tokenizer, weights), and what a new run starts with."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from multifold.durable import replace_file
from multifold.errors import MultifoldError
from training import towers
from training.recipes import schema as recipes
from training.recipes.schema import Recipe
from training.towers import TwoTowerModel, build_model
from training.towers.tokenizers import TrainedTokenizer

TURN = "geometry.turn."
ADDED = ("points.", TURN)  # parts that a model may get beside those of its checkpoint


@dataclass(frozen=True)
class Checkpoint:
    """The result of a run."""

    recipe: Recipe
    tokenizer: TrainedTokenizer
    model: TwoTowerModel


@dataclass(frozen=True)
class CheckpointContent:
    """The content of a checkpoint file, its model a table of weights."""

    recipe: Recipe
    tokenizer: TrainedTokenizer
    weights: Mapping[str, Tensor]
    run: Mapping[str, Any] | None = None  # all that an unfinished run needs to go on


def save_checkpoint(path: Path, checkpoint: Checkpoint, run: Mapping[str, Any] | None = None) -> None:
    content: dict[str, Any] = {
        "recipe": checkpoint.recipe.model_dump(mode="json"),
        "tokenizer": asdict(checkpoint.tokenizer),
        "model": checkpoint.model.state_dict(),
    }
    if run is not None:
        content["run"] = run
    with replace_file(path) as file:
        torch.save(content, file)


def copy_checkpoint(source: Path, path: Path) -> None:
    with open(source, "rb") as original, replace_file(path) as file:
        shutil.copyfileobj(original, file)


def read_checkpoint(path: Path) -> CheckpointContent:
    """The content of a checkpoint file, no model built of it; nothing in it is executed."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise MultifoldError(f"there is no checkpoint {path}") from None
    except (RuntimeError, EOFError, UnpicklingError) as error:
        raise MultifoldError(f"{path} is no checkpoint, or not a whole one") from error
    recipe = recipes.parse_recipe(content["recipe"], str(path))
    tokenizer = TrainedTokenizer(**content["tokenizer"])
    return CheckpointContent(recipe, tokenizer, content["model"], content.get("run"))


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint into a model in eval mode."""
    stored = read_checkpoint(path)
    model = build_model(stored.recipe, stored.tokenizer.vocabulary, pretrained=False)
    model.load_state_dict(stored.weights)
    return Checkpoint(stored.recipe, stored.tokenizer, model.eval())


def starting_tokenizer(recipe: Recipe, texts: Iterable[str]) -> TrainedTokenizer:
    """The checkpoint's tokenizer, or the one that the tower needs, learned from `texts`."""
    if recipe.train.start is None:
        return towers.tokenizer_for(recipe.text, texts)
    return read_checkpoint(Path(recipe.train.start)).tokenizer


def starting_model(recipe: Recipe, vocabulary: int) -> TwoTowerModel:
    """A fresh model, or the checkpoint's; the geometry's parameters only where it is the same geometry.

    A point tower and the turn of nested vectors begin fresh where the checkpoint has none.
    """
    if recipe.train.start is None:
        return build_model(recipe, vocabulary)
    fresh = build_model(recipe, vocabulary, pretrained=False)
    stored = read_checkpoint(Path(recipe.train.start))
    wanted = fresh.state_dict()
    weights = stored.weights
    weights = {name: one for name, one in weights.items() if name in wanted or not name.startswith(TURN)}
    if recipe.geometry != stored.recipe.geometry:
        weights = {name: weight for name, weight in weights.items() if "geometry." not in name}
        weights |= {name: weight for name, weight in wanted.items() if "geometry." in name}
    if added := [part for part in ADDED if not any(name.startswith(part) for name in weights)]:
        weights = {**weights, **{name: one for name, one in wanted.items() if name.startswith(tuple(added))}}
    for name in sorted(wanted.keys() | weights.keys()):
        there, here = _shape(weights, name), _shape(wanted, name)
        if there != here:
            raise MultifoldError(
                f"{recipe.train.start} holds other towers than this recipe: {name} is {there} there and "
                f"{here} here; take [image], [text] and dim from its recipe, {stored.recipe.name}"
            )
    fresh.load_state_dict(weights)
    return fresh


def _shape(weights: Mapping[str, Tensor], name: str) -> str:
    return "x".join(map(str, weights[name].shape)) or "a number" if name in weights else "missing"
