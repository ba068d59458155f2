"""A trained model on disk: the recipe, the tokenizer and the weights, in one file written whole."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

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


def load(path: Path) -> Checkpoint:
    """Read a checkpoint; nothing in it is executed."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise MultifoldError(f"there is no checkpoint {path}") from None
    recipe = recipes.parse(content["recipe"], str(path))
    tokenizer = TrainedTokenizer(**content["tokenizer"])
    model = build_model(recipe, tokenizer.vocabulary, pretrained=False)
    model.load_state_dict(content["model"])
    return Checkpoint(recipe, tokenizer, model.eval())
