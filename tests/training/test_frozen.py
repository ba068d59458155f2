"""Towers that do not learn: read once, never changed, and what learns beside them is the same as without."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training import small
from tests.training.clouds import POINTS, data
from training import checkpoint, loop
from training.objective import Objective
from training.recipes.schema import Recipe, parse_recipe
from training.run import TrainingRun

STILL = {"image": {"trainable": "none"}, "text": {"trainable": "none"}}


def beside(start: Path, sections: dict[str, Any] | None = None, **train: object) -> Recipe:
    """Points that learn beside towers of a checkpoint."""
    options = {"start": str(start), "steps": 40, "shift": 0, "views": 0, "captions": 0, **train}
    raw = small.recipe(**options).model_dump(exclude_none=True)
    loss = {"name": "mfh_even", "agg_image": 0.0, "text_points": 1.0, "image_points": 0.5}
    wanted = {"points": POINTS, "loss": loss, **STILL, **(sections or {})}
    for name, values in wanted.items():
        raw[name] = {**raw.get(name, {}), **values}
    return parse_recipe(raw, "beside")


def test_points_learn_and_the_towers_stay(trained_run: Path, tmp_path: Path) -> None:
    recipe = beside(trained_run)
    path = loop.train(recipe, *data(recipe), tmp_path)
    before = checkpoint.read_checkpoint(trained_run).weights
    after = checkpoint.load_checkpoint(path).model.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())
    torch.manual_seed(recipe.train.seed)
    fresh = checkpoint.starting_model(recipe, data(recipe)[1].vocabulary).state_dict()
    assert any(not torch.equal(after[name], weight) for name, weight in fresh.items() if "points." in name)


@pytest.mark.parametrize("still", [("image", "text"), ("image",), ("text",)], ids=["both", "image", "text"])
def test_features_stand_for_what_the_towers_read(trained_run: Path, still: tuple[str, ...]) -> None:
    sections = {side: {"trainable": "none" if side in still else "all"} for side in STILL}
    recipe = beside(trained_run, sections)
    items, tokenizer = data(recipe)
    run = TrainingRun(recipe, items, tokenizer, torch.device("cpu"))
    learning = beside(trained_run, {side: {"trainable": "all"} for side in STILL})
    plain = TrainingRun(learning, items, tokenizer, run.device)
    stored, whole = next(run.batches), next(plain.batches)
    assert stored.pixels.ndim == (2 if "image" in still else 4)
    assert stored.tokens.is_floating_point() is ("text" in still)
    run.model.eval()
    loss = Objective(recipe, run.learning)(run.learning, stored, 0.0)
    assert torch.allclose(loss, Objective(recipe, run.model)(run.model, whole, 0.0), atol=1e-5)
    loss.backward()
    for side in STILL:
        slopes = [one.grad is not None for one in getattr(run.model, side).parameters()]
        assert any(slopes) is (side not in still)


def test_a_stopped_run_goes_on(trained_run: Path, tmp_path: Path) -> None:
    recipe = beside(trained_run, steps=6, save_every=3)
    whole = checkpoint.load_checkpoint(loop.train(recipe, *data(recipe), tmp_path)).model.state_dict()
    run = TrainingRun(recipe, *data(recipe), torch.device("cpu"))
    for _ in range(3):
        batch = next(run.batches)
        run.step += 1
        loop.step(run, batch)
    other = tmp_path / "other"
    other.mkdir()
    run.save(other / loop.LAST)
    again = checkpoint.load_checkpoint(
        loop.train(recipe, *data(recipe), other, resume=True)
    ).model.state_dict()
    assert all(torch.equal(again[name], weight) for name, weight in whole.items())
