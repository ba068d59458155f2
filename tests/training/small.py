"""A recipe and a data set so small that a test can train on them: pictures, captions, clouds of points."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from multifold.bundle.point_groups import PointSpec, group_points
from multifold.bundle.tokenizer import Tokenizer
from training import checkpoint, loop, prepare
from training.batches import TrainingItems
from training.distributed import SINGLE_PROCESS, ProcessRank
from training.recipes.library import merge
from training.recipes.schema import Recipe, SmallPointsSection, parse_recipe
from training.retrieval.encoder import TorchEncoder
from training.towers import TwoTowerModel, build_model, point_spec, text_spec
from training.towers.tokenizers import TrainedTokenizer, train_definition
from training.validation import ValidationSet

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 40, 220), "grey": (120, 120, 120)}
PLACES = ("left", "right", "top", "bottom")
VOCABULARY = 290  # as many as the captions give
SECTIONS: Mapping[str, Any] = {
    "name": "small",
    "about": "Knows coloured squares.",
    "data": {},
    "image": {"size": 32, "stem": [8, 16], "width": 32, "depth": 1, "heads": 2},
    "text": {"vocabulary": VOCABULARY, "context": 24, "width": 32, "depth": 1, "heads": 2},
    "geometry": {"dim": 16},
    "train": {"items": 8, "steps": 200, "warmup": 10, "rate": 3e-3, "shift": 1},
}
POINTS = {"points": 64, "groups": 6, "neighbours": 8, "stem": [16], "width": 32, "depth": 1, "heads": 2}
POINTS_ALONE = {"points": POINTS, "loss": {"name": "mfh_even", "agg_image": 0.0, "text_points": 1.0}}


def recipe(sections: Mapping[str, Any] | None = None, /, **train: object) -> Recipe:
    """Tiny towers; `sections` are laid over them, `train` over the run."""
    return parse_recipe(merge(merge(SECTIONS, {"train": train}), sections or {}), "small")


def pictures() -> tuple[np.ndarray, list[list[str]]]:
    """Sixteen items, a coloured square in one of four places, each with two views and three captions."""
    views, captions = [], []
    for colour, rgb in COLOURS.items():
        for row, place in enumerate(PLACES):
            y, x = divmod(row, 2)
            view = np.full((2, 32, 32, 3), 255, np.uint8)
            view[:, 4 + 14 * y : 14 + 14 * y, 4 + 14 * x : 14 + 14 * x] = rgb
            view[1] = view[1] // 2 + 100
            views.append(view)
            captions.append(
                [f"a {colour} square {place}", f"{place}: {colour} square", f"square, {colour}, {place}"]
            )
    return np.stack(views), captions


def clouds(spec: PointSpec, count: int = 16) -> Float[np.ndarray, "i g k c"]:
    """Groups of points of boxes that differ in colour and proportion."""
    rows = np.random.default_rng(0).uniform(-1, 1, (count, spec.points, 9)).astype(np.float32)
    for item in range(count):
        rows[item, :, item % 3] *= 0.2
        rows[item, :, 6:] = np.array([item // 8, item // 4 % 2, item % 4 / 3], np.float32)
    rows[..., :3] /= np.linalg.norm(rows[..., :3], axis=2).max(axis=1)[:, None, None]
    return np.stack([group_points(one, spec) for one in rows])


def cloud_spec() -> PointSpec:
    """How the small point tower wants its points."""
    return point_spec(SmallPointsSection.model_validate(POINTS))


def tokenizer(captions: Sequence[Sequence[str]]) -> TrainedTokenizer:
    """A vocabulary of the captions' own."""
    return train_definition([text for texts in captions for text in texts], VOCABULARY)


def groups(wanted: Recipe) -> tuple[TrainingItems, TrainedTokenizer]:
    """The pictures as the loop wants them, with points where the recipe has a tower for them."""
    views, captions = pictures()
    trained = tokenizer(captions)
    tokenize = Tokenizer(trained.definition, text_spec(wanted.text, trained))
    rows = [(3 * i, 3 * i + 3) for i in range(len(captions))]
    items = TrainingItems(views, tokenize([text for texts in captions for text in texts]).ids, rows)
    if wanted.points is not None:
        spec = point_spec(wanted.points)
        items = replace(items, points=clouds(spec), directions=spec.directions)
    return items, trained


def held_out(wanted: Recipe) -> ValidationSet | None:
    """Four of the pictures again, for runs that validate."""
    if not wanted.validation.every:
        return None
    views, captions = pictures()
    trained = tokenizer(captions)
    reader = Tokenizer(trained.definition, text_spec(wanted.text, trained))
    return ValidationSet(views[::4], captions[::4], reader)


def train(wanted: Recipe, folder: Path, resume: bool = False, ranks: ProcessRank = SINGLE_PROCESS) -> Path:
    """The checkpoint of a run in this folder."""
    folder.mkdir(exist_ok=True)
    items, trained = groups(wanted)
    return loop.train(wanted, items, trained, folder, held_out(wanted), resume, ranks=ranks)


def told(folder: Path) -> list[dict[str, Any]]:
    """What a run has written into its log, line by line."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def losses(folder: Path) -> list[float]:
    """The losses of a run, step by step."""
    return [line["loss"] for line in told(folder) if "loss" in line]


def weights(path: Path) -> dict[str, Tensor]:
    """Of a checkpoint."""
    return dict(checkpoint.read_checkpoint(path).weights)


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Whether two tables of weights are the same to the bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def model(wanted: Recipe, seed: int = 0) -> TwoTowerModel:
    """Its towers as they begin."""
    torch.manual_seed(seed)
    return build_model(wanted, VOCABULARY)


def encoder(sections: Mapping[str, Any] | None = None) -> TorchEncoder:
    """Random towers of the small recipe with other sections, and their tokenizer."""
    wanted = recipe(sections)
    return TorchEncoder(model(wanted, seed=3), prepare.reader(wanted, tokenizer(pictures()[1])))
