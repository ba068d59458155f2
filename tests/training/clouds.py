"""A point tower so small that a test can train it, and clouds of points to train it on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from multifold.bundle.point_groups import PointSpec, group_points
from tests.training import small
from training.batches import TrainingItems
from training.recipes.schema import Recipe, SmallPointsSection, parse_recipe
from training.towers import point_spec
from training.towers.tokenizers import TrainedTokenizer

POINTS = {"points": 64, "groups": 6, "neighbours": 8, "stem": [16], "width": 32, "depth": 1, "heads": 2}
ALONE = {"name": "mfh_even", "agg_image": 0.0, "text_points": 1.0}


def recipe(loss: Mapping[str, Any], points: Mapping[str, Any] | None = None, **train: object) -> Recipe:
    raw = small.recipe(**train).model_dump(exclude_none=True)
    return parse_recipe({**raw, "points": points or POINTS, "loss": dict(loss)}, "points")


def shapes(count: int, seed: int = 0) -> Float[np.ndarray, "i n 9"]:
    """Clouds that differ in colour and in form: boxes of a few proportions."""
    rows = np.random.default_rng(seed).uniform(-1, 1, (count, 64, 9)).astype(np.float32)
    for item in range(count):
        rows[item, :, item % 3] *= 0.2
        rows[item, :, 6:] = np.array([item // 8, item // 4 % 2, item % 4 / 3], np.float32)
    rows[..., :3] /= np.linalg.norm(rows[..., :3], axis=2).max(axis=1)[:, None, None]
    return rows


def grouped(count: int, spec: PointSpec) -> Float[np.ndarray, "i g k c"]:
    return np.stack([group_points(one, spec) for one in shapes(count)])


def spec() -> PointSpec:
    return point_spec(SmallPointsSection.model_validate(POINTS))


def data(wanted: Recipe) -> tuple[TrainingItems, TrainedTokenizer]:
    items, tokenizer = small.groups(wanted)
    return replace(items, points=grouped(16, spec()), directions=spec().directions), tokenizer
