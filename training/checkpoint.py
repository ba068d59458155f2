"""A trained model on disk: the recipe, the tokenizer and the weights, in one file written whole."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from multifold.durable import replacing
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
    run: Mapping[str, Any] | None = None  # all that an unfinished run needs to go on


def save(path: Path, checkpoint: Checkpoint, run: Mapping[str, Any] | None = None) -> None:
    """Write the checkpoint, whole or not at all."""
    content: dict[str, Any] = {
        "recipe": checkpoint.recipe.model_dump(mode="json"),
        "tokenizer": asdict(checkpoint.tokenizer),
        "model": checkpoint.model.state_dict(),
    }
    if run is not None:
        content["run"] = run
    with replacing(path) as file:
        torch.save(content, file)


def copy(source: Path, path: Path) -> None:
    """The same checkpoint in another place, whole or not at all."""
    with open(source, "rb") as given, replacing(path) as file:
        shutil.copyfileobj(given, file)


def read(path: Path) -> Stored:
    """What a checkpoint says, no model built of it; nothing in it is executed."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise MultifoldError(f"there is no checkpoint {path}") from None
    except (RuntimeError, EOFError, UnpicklingError) as error:
        raise MultifoldError(f"{path} is no checkpoint, or not a whole one") from error
    recipe = recipes.parse(content["recipe"], str(path))
    return Stored(recipe, TrainedTokenizer(**content["tokenizer"]), content["model"], content.get("run"))


def load(path: Path) -> Checkpoint:
    """Read a checkpoint into a model that is ready to answer."""
    stored = read(path)
    model = build_model(stored.recipe, stored.tokenizer.vocabulary, pretrained=False)
    model.load_state_dict(stored.weights)
    return Checkpoint(stored.recipe, stored.tokenizer, model.eval())
