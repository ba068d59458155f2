"""Towers that do not learn read every view and caption once: their features stand for both in each step.

A point tower that learns beside them then costs little: nothing else is encoded again.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor, nn

from training.batches import TrainingItems
from training.recipes.schema import Recipe
from training.towers import TwoTowerModel

OBSERVATIONS_AT_ONCE = 256  # observations


def without_frozen(model: TwoTowerModel, recipe: Recipe) -> TwoTowerModel:
    """The same model for observations that are features already; its parts are shared, not copied."""
    image, text = (section.trainable == "none" for section in (recipe.image, recipe.text))
    if not (image or text):
        return model
    if image and text:
        model.geometry.requires_grad_(False)  # vectors stay what they were
    return TwoTowerModel(
        nn.Identity() if image else model.image,
        nn.Identity() if text else model.text,
        model.geometry,
        model.points,
    )


def encode_frozen(model: TwoTowerModel, groups: TrainingItems, recipe: Recipe) -> TrainingItems:
    """The items with features in place of the pixels and tokens that towers without learning read."""
    device = next(model.parameters()).device
    if recipe.text.trainable == "none":
        read = _features(model.text, lambda rows: groups.tokens[rows], len(groups.tokens), device)
        groups = replace(groups, tokens=read)
    if recipe.image.trainable != "none":
        return groups
    items, views = groups.pixels.shape[:2]

    def pictures(rows: np.ndarray) -> np.ndarray:
        return groups.pixels[rows // views, rows % views]

    seen = _features(model.image, pictures, items * views, device)
    return replace(groups, pixels=seen.reshape(items, views, -1))


def _features(
    tower: nn.Module, observed: Callable[[np.ndarray], np.ndarray], count: int, device: torch.device
) -> Float32[np.ndarray, "b n"]:
    learning = tower.training
    tower.eval()
    parts: list[Tensor] = []
    with torch.inference_mode():
        for start in range(0, count, OBSERVATIONS_AT_ONCE):
            rows = np.arange(start, min(count, start + OBSERVATIONS_AT_ONCE))
            parts.append(tower(torch.from_numpy(np.array(observed(rows))).to(device)).float().cpu())
    tower.train(learning)
    return torch.cat(parts).numpy()
