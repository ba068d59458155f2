"""Retrieval on the val split while a run is under way: what the best step is chosen by."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from multifold.bundle.tokenizer import Tokenizer
from multifold.metrics import ranks, recall_at_k
from training import prepare
from training.data.points import ItemPoints
from training.data.views import ItemViews
from training.geometries.sphere import Clip
from training.recipes.schema import Recipe
from training.retrieval.comparison import visible_difference
from training.retrieval.directions import CUTS, ShortenedEncoder, directions, encode
from training.retrieval.encoder import TorchEncoder
from training.retrieval.features import HeldOutFeatures, make_bank
from training.towers import TwoTowerModel
from training.towers.tokenizers import TrainedTokenizer

CHOOSES = ("text_to_shape", "shape_to_text")
RECIPROCAL = "MRR"  # the mean of one over the rank of the best right item
CROWD = 10  # items for each place that a recall counts; with fewer it tells hardly anything


@dataclass(frozen=True)
class ValidationSet:
    views: ItemViews
    captions: Sequence[Sequence[str]]
    reader: Tokenizer
    points: ItemPoints | None = None  # what shapes are known by, beside views or alone
    nested: Sequence[int] = ()  # shorter lengths of vectors, which are measured too
    sees: bool = False  # whether shapes are known by views beside the points
    pool: Literal["mean", "max"] = "mean"  # how their features then become one
    chooses: str = "R@10"  # the measure that the best step is chosen by

    def measure(self, model: TwoTowerModel) -> dict[str, float]:
        """Recalls and mean reciprocal ranks of every direction; the model returns to its mode afterwards."""
        learning = model.training
        encoder = TorchEncoder(model, self.reader)
        observed = self._observe(encoder)
        measured = directions(encoder, observed)
        for length in self.nested:
            shorter = directions(ShortenedEncoder(encoder, length), observed)
            measured |= {f"{name}@{length}": one for name, one in shorter.items()}
        model.train(learning)
        numbers: dict[str, float] = {}
        for name, one in measured.items():
            places = ranks(one.scores, one.relevant)
            for cut in CUTS:
                numbers[f"{name}/R@{cut}"] = round(float(recall_at_k(places, cut).mean()), 4)
            numbers[f"{name}/{RECIPROCAL}"] = round(float((1 / places).mean()), 4)
        return numbers

    def _observe(self, encoder: TorchEncoder) -> HeldOutFeatures:
        """Features of all sides; with points, a shape is these, or the mean of these and its views as one."""
        observed = encode(encoder, self.views, self.captions)
        if self.points is None:
            return observed
        one_each = [1] * len(self.captions)
        points = encoder.grouped_points(self.points)
        if not self.sees:
            return replace(observed, shape=make_bank(points, one_each))
        views = observed.shape
        if self.pool == "mean":
            seen = views.pooled().features
        else:
            seen = np.maximum.reduceat(views.features, views.starts)
        if isinstance(encoder.model.geometry, Clip):  # on a sphere lengths say nothing
            seen = seen / np.linalg.norm(seen, axis=1, keepdims=True)
            points = points / np.linalg.norm(points, axis=1, keepdims=True)
        both = np.asarray((seen + points) / 2, np.float32)
        return replace(observed, image=views, shape=make_bank(both, one_each))


def load_validation_set(recipe: Recipe, tokenizer: TrainedTokenizer, cache: Path) -> ValidationSet | None:
    if not recipe.validation.every:
        return None
    items, views = prepare.held_out(recipe, cache, recipe.data.val_split, recipe.validation.items)
    captions = [entry.texts for entry in items]
    reader = prepare.reader(recipe, tokenizer)
    sees, pool = recipe.loss.sees, recipe.loss.pool
    points = prepare.points(recipe, items, cache)
    chooses = choosing_measure(recipe.validation.measure, len(items))
    return ValidationSet(np.asarray(views), captions, reader, points, recipe.loss.nested, sees, pool, chooses)


def choosing_measure(wanted: str, items: int) -> str:
    """The measure that is wanted, or a finer one where so few items are soon all among the first."""
    if wanted == RECIPROCAL or items < CROWD * int(wanted.removeprefix("R@")):
        return RECIPROCAL
    return wanted


def outcome(log: Path, measure: str, items: int) -> str:
    """What the val split says of the whole run, and how little that is where the split is small."""
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    found = {line["step"]: numbers for line in lines if (numbers := _validated(line))}
    scores = {step: score(numbers, measure) for step, numbers in found.items()}
    best = max(scores, key=lambda step: (scores[step], step))
    before = f"{scores[0]:.3f} before the first step, " if 0 in scores else ""
    told = f"{before}{scores[best]:.3f} at step {best}, which is kept"
    if not best:
        told = "no step was better than the encoder that the run started from, which is kept"
    noise = (
        f"with {items} items, differences of recall below {visible_difference(items):.2f} are not significant"
    )
    by_chance = chance_of(measure, items)
    if scores[best] <= by_chance:
        noise += ". The encoder knows no more than chance: it needs more items, or more steps"
    return f"{measure} on val: {told}, where chance is {by_chance:.3f}; {noise}"


def chance_of(measure: str, items: int) -> float:
    """What a measure is by chance, where one of so many items is right."""
    if measure == RECIPROCAL:
        return sum(1 / place for place in range(1, items + 1)) / items
    return min(1.0, int(measure.removeprefix("R@")) / items)


def _validated(line: Mapping[str, int | float]) -> dict[str, float]:
    return {key.removeprefix("val/"): value for key, value in line.items() if key.startswith("val/")}


def score(numbers: Mapping[str, float], measure: str) -> float:
    """The number that the best step is chosen by."""
    return sum(numbers[f"{direction}/{measure}"] for direction in CHOOSES) / len(CHOOSES)
