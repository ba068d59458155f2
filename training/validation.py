"""Retrieval on the val split while a run is under way: what the best step is chosen by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from multifold.metrics import ranks, recall_at_k
from multifold.tokens import Tokenizer
from training import prepare
from training.evaluate.live import LiveEncoder
from training.evaluate.retrieval import CUTS, directions, encode
from training.recipe import Recipe
from training.tokenizers import TrainedTokenizer
from training.towers import Model

CHOOSES = ("text_to_shape", "shape_to_text")


@dataclass(frozen=True)
class HeldOut:
    """Items that nobody learns from."""

    views: UInt8[np.ndarray, "i v h w 3"]
    captions: Sequence[Sequence[str]]
    reader: Tokenizer

    def measure(self, model: Model) -> dict[str, float]:
        """Recalls of every direction; the model goes back to learning afterwards."""
        learning = model.training
        encoder = LiveEncoder(model, self.reader)
        asked = directions(encoder, encode(encoder, self.views, self.captions))
        model.train(learning)
        found = {name: ranks(direction.scores, direction.relevant) for name, direction in asked.items()}
        return {
            f"{name}/R@{cut}": round(float(recall_at_k(places, cut).mean()), 4)
            for name, places in found.items()
            for cut in CUTS
        }


def held_out(recipe: Recipe, tokenizer: TrainedTokenizer, cache: Path) -> HeldOut | None:
    """The recipe's validation items, if it wants any."""
    if not recipe.validation.every:
        return None
    items, views = prepare.held_out(recipe, cache, recipe.data.val_split, recipe.validation.items)
    return HeldOut(np.asarray(views), [entry.texts for entry in items], prepare.reader(recipe, tokenizer))


def score(numbers: Mapping[str, float], measure: str) -> float:
    """One number to choose by."""
    return sum(numbers[f"{direction}/{measure}"] for direction in CHOOSES) / len(CHOOSES)
