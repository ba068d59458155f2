"""A trained model on disk: the recipe, the tokenizer and the weights, in one file written whole."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from multifold.errors import MultifoldError
from training import recipe as recipes
from training.recipe import Recipe
from training.tokenizers import TrainedTokenizer
from training.towers import Model, build_model


@dataclass(frozen=True)
class Checkpoint:
    """What a run leaves behind."""

    recipe: Recipe
    tokenizer: TrainedTokenizer
    model: Model


@dataclass(frozen=True)
class Stored:
    """The same, its model still a table of weights."""

    recipe: Recipe
    tokenizer: TrainedTokenizer
    weights: Mapping[str, Tensor]


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint beside its place and move it there when it is whole."""
    content = {
        "recipe": checkpoint.recipe.model_dump(mode="json"),
        "tokenizer": asdict(checkpoint.tokenizer),
        "model": checkpoint.model.state_dict(),
    }
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def read(path: Path) -> Stored:
    """What a checkpoint says, no model built of it; nothing in it is executed."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise MultifoldError(f"there is no checkpoint {path}") from None
    recipe = recipes.parse(content["recipe"], str(path))
    return Stored(recipe, TrainedTokenizer(**content["tokenizer"]), content["model"])


def load(path: Path) -> Checkpoint:
    """Read a checkpoint into a model that is ready to answer."""
    stored = read(path)
    model = build_model(stored.recipe, stored.tokenizer.vocabulary, pretrained=False)
    model.load_state_dict(stored.weights)
    return Checkpoint(stored.recipe, stored.tokenizer, model.eval())
