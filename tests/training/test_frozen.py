"""Towers that do not learn: read once, never changed, and what learns beside them is the same as without."""

from pathlib import Path

import pytest
import torch

from tests.training import small
from training import checkpoint, loop
from training.objective import Objective
from training.recipes.schema import Recipe
from training.run import TrainingRun

SIDES = ("image", "text")
LOSS = {**small.POINTS_ALONE["loss"], "image_points": 0.5}


def beside(start: Path, still: tuple[str, ...] = SIDES, **train: object) -> Recipe:
    """Points that learn beside towers of a checkpoint; those that are `still` do not."""
    sections = {side: {"trainable": "none" if side in still else "all"} for side in SIDES}
    options = {"start": str(start), "steps": 20, "shift": 0, "views": 0, "captions": 0, **train}
    return small.recipe({"points": small.POINTS, "loss": LOSS, **sections}, **options)


def test_points_learn_and_the_towers_stay(trained_run: Path, tmp_path: Path) -> None:
    recipe = beside(trained_run)
    after = small.weights(small.train(recipe, tmp_path))
    before = small.weights(trained_run)
    assert small.same({name: after[name] for name in before}, before)
    torch.manual_seed(recipe.train.seed)
    fresh = checkpoint.starting_model(recipe, small.VOCABULARY).state_dict()
    assert any(not torch.equal(after[name], weight) for name, weight in fresh.items() if "points." in name)


@pytest.mark.parametrize("still", [SIDES, ("image",), ("text",)], ids=["both", "image", "text"])
def test_features_stand_for_what_the_towers_read(trained_run: Path, still: tuple[str, ...]) -> None:
    recipe = beside(trained_run, still)
    items, tokenizer = small.groups(recipe)
    run, plain = (
        TrainingRun(one, items, tokenizer, torch.device("cpu")) for one in (recipe, beside(trained_run, ()))
    )
    stored, whole = next(run.batches), next(plain.batches)
    assert stored.pixels.ndim == (2 if "image" in still else 4)
    assert stored.tokens.is_floating_point() is ("text" in still)
    run.model.eval()
    loss = Objective(recipe, run.learning)(run.learning, stored, 0.0)
    assert torch.allclose(loss, Objective(recipe, run.model)(run.model, whole, 0.0), atol=1e-5)
    loss.backward()
    for side in SIDES:
        slopes = [one.grad is not None for one in getattr(run.model, side).parameters()]
        assert any(slopes) is (side not in still)


def test_a_stopped_run_goes_on(trained_run: Path, tmp_path: Path) -> None:
    recipe = beside(trained_run, steps=6, save_every=3)
    whole = small.weights(small.train(recipe, tmp_path / "whole"))
    run = TrainingRun(recipe, *small.groups(recipe), torch.device("cpu"))
    for _ in range(3):
        batch = next(run.batches)
        run.step += 1
        loop.step(run, batch)
    (tmp_path / "other").mkdir()
    run.save(tmp_path / "other" / loop.LAST)
    assert small.same(small.weights(small.train(recipe, tmp_path / "other", resume=True)), whole)
