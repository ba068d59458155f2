"""Retrieval on the val split while a run is under way: what the best step is chosen by."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from multifold.bundle.tokenizer import Tokenizer
from multifold.metrics import ranks, recall_at_k
from training import prepare
from training.data.views import ItemViews
from training.recipes.schema import Recipe
from training.retrieval.comparison import visible_difference
from training.retrieval.directions import CUTS, ShortenedEncoder, directions, encode
from training.retrieval.encoder import TorchEncoder
from training.towers import TwoTowerModel
from training.towers.tokenizers import TrainedTokenizer

CHOOSES = ("text_to_shape", "shape_to_text")


@dataclass(frozen=True)
class ValidationSet:
    views: ItemViews
    captions: Sequence[Sequence[str]]
    reader: Tokenizer
    nested: Sequence[int] = ()  # shorter lengths of vectors, which are measured too

    def measure(self, model: TwoTowerModel) -> dict[str, float]:
        """Recalls of every direction; the model returns to its mode afterwards."""
        learning = model.training
        encoder = TorchEncoder(model, self.reader)
        observed = encode(encoder, self.views, self.captions)
        measured = directions(encoder, observed)
        for length in self.nested:
            cut = directions(ShortenedEncoder(encoder, length), observed)
            measured |= {f"{name}@{length}": one for name, one in cut.items()}
        model.train(learning)
        return {
            f"{name}/R@{cut}": round(float(recall_at_k(ranks(one.scores, one.relevant), cut).mean()), 4)
            for name, one in measured.items()
            for cut in CUTS
        }


def load_validation_set(recipe: Recipe, tokenizer: TrainedTokenizer, cache: Path) -> ValidationSet | None:
    if not recipe.validation.every:
        return None
    items, views = prepare.held_out(recipe, cache, recipe.data.val_split, recipe.validation.items)
    captions, reader = [entry.texts for entry in items], prepare.reader(recipe, tokenizer)
    return ValidationSet(np.asarray(views), captions, reader, recipe.loss.nested)


def outcome(log: Path, measure: str, items: int) -> str:
    """What the val split says of the whole run, and how little that is where the split is small."""
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    found = {line["step"]: numbers for line in lines if (numbers := _validated(line))}
    scores = {step: score(numbers, measure) for step, numbers in found.items()}
    best = max(scores, key=lambda step: (scores[step], step))
    before = f"{scores[0]:.3f} before the first step, " if 0 in scores else ""
    told = f"{before}{scores[best]:.3f} at step {best}, which is kept"
    if not best:
        told = "no step found more than the encoder that it began with, which is kept"
    visible = visible_difference(items)
    return f"{measure} on val: {told}; with {items} items, differences below {visible:.2f} are chance"


def _validated(line: Mapping[str, int | float]) -> dict[str, float]:
    return {key.removeprefix("val/"): value for key, value in line.items() if key.startswith("val/")}


def score(numbers: Mapping[str, float], measure: str) -> float:
    """The number that the best step is chosen by."""
    return sum(numbers[f"{direction}/{measure}"] for direction in CHOOSES) / len(CHOOSES)
