"""Where a run begins: with fresh weights, or with those of a checkpoint (`train.start`), for fine-tuning."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import Tensor

from multifold.errors import MultifoldError
from training import checkpoint, towers
from training.checkpoint import Stored
from training.recipe import Recipe
from training.tokenizers import TrainedTokenizer
from training.towers import Model, build_model


def tokenizer(recipe: Recipe, texts: Iterable[str]) -> TrainedTokenizer:
    """What the texts are read with: as the checkpoint did, or as the tower wants it, learned from `texts`."""
    if recipe.train.start is None:
        return towers.tokenizer_for(recipe.text, texts)
    return checkpoint.read(Path(recipe.train.start)).tokenizer


def model(recipe: Recipe, vocabulary: int) -> Model:
    """The recipe's model, with the checkpoint's weights if it names one."""
    if recipe.train.start is None:
        return build_model(recipe, vocabulary)
    fresh = build_model(recipe, vocabulary, pretrained=False)
    _fill(fresh, checkpoint.read(Path(recipe.train.start)), recipe)
    return fresh


def _fill(fresh: Model, stored: Stored, recipe: Recipe) -> None:
    """All weights of the towers; the geometry's own numbers only where it is the same geometry."""
    wanted, given = fresh.state_dict(), stored.weights
    if recipe.geometry != stored.recipe.geometry:
        given = {name: weight for name, weight in given.items() if "geometry." not in name}
        given |= {name: weight for name, weight in wanted.items() if "geometry." in name}
    wrong = sorted(
        name for name in wanted.keys() | given.keys() if _shape(wanted, name) != _shape(given, name)
    )
    if wrong:
        raise MultifoldError(
            f"{recipe.train.start} holds other towers than this recipe: {wrong[0]} is "
            f"{_shape(given, wrong[0])} there and {_shape(wanted, wrong[0])} here; "
            f"take [image], [text] and dim from its recipe, {stored.recipe.name}"
        )
    fresh.load_state_dict(given)


def _shape(weights: Mapping[str, Tensor], name: str) -> str:
    return "x".join(map(str, weights[name].shape)) or "a number" if name in weights else "missing"
