"""Every run of every study can be made, and its table says what was measured."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benches.learning import ablation_runs
from benches.learning.ablation import studies
from benches.learning.ablation_runs import ablation_table, changed_recipe
from training import checkpoint
from training.evaluate.ablation import AblationRun, read_runs
from training.objective import Objective
from training.towers import build_model

RUNS = [(study, name, changes) for study, runs in studies().items() for name, changes in runs.items()]


@pytest.mark.parametrize(("study", "name", "changes"), RUNS, ids=[f"{s}: {n}" for s, n, _ in RUNS])
def test_every_run_has_a_recipe_and_a_model(study: str, name: str, changes: dict[str, Any]) -> None:
    recipe = changed_recipe(changes, seed=1, steps=7)
    assert (recipe.train.seed, recipe.train.steps) == (1, 7)
    model = build_model(recipe, 100)
    assert model.geometry.name == recipe.geometry.name
    assert Objective(recipe, model).loss


def test_losses_are_compared_at_equal_image_cost() -> None:
    for study in ("losses", "batch"):
        for changes in studies()[study].values():
            train = changed_recipe(changes, seed=0, steps=None).train
            assert train.items * (train.views or 6) == 144


def test_a_table_gives_means_and_intervals_over_seeds_and_items() -> None:
    name = next(iter(studies()["losses"]))
    rng = np.random.default_rng(0)
    seeds = [(rng.random(300) < share).astype(float).tolist() for share in (0.3, 0.5)]
    hits = [
        {d: {"R@1": s, "R@10": s} for d in ("text_to_shape", "shape_to_text", "text_to_image")} for s in seeds
    ]
    found = [AblationRun("losses", name, seed, 10, 1440, 60.0, each) for seed, each in enumerate(hits)]
    row = ablation_table("losses", found).splitlines()[-1]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:2] == [name, "2"]
    mean, low, high = (float(part.strip("[],")) for part in cells[2].split())
    assert mean == pytest.approx(100 * np.mean(seeds), abs=0.06)
    assert low < 32 < 48 < high  # seeds as different as these are not averaged away
    assert cells[-2:] == ["1,440", "60"]


def test_a_lead_is_taken_pair_by_pair() -> None:
    """Items differ far more than runs do: what each gains is told apart from what all have in common."""
    base, run = list(studies()["losses"])[:2]
    rng = np.random.default_rng(0)
    found = [AblationRun("losses", run, 2, 10, 1440, 60.0, {})]  # nothing of this seed to hold it against
    for seed in (0, 1):
        shares = rng.random(300) * 0.8
        for name, lead in ((base, 0.0), (run, 0.1)):
            each = {"R@1": (shares + lead).tolist(), "R@10": shares.tolist()}
            hits = dict.fromkeys(("text_to_shape", "shape_to_text", "text_to_image"), each)
            found.append(AblationRun("losses", name, seed, 10, 1440, 60.0, hits))
    rows = ablation_table("losses", found, against=base).splitlines()[5:]
    assert len(rows) == 1
    cells = [cell.strip() for cell in rows[0].strip("|").split("|")]
    assert cells[:4] == [run, "2", "10.0 [10.0, 10.0]", "0.0 [0.0, 0.0]"]


@pytest.mark.slow
def test_a_run_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps on sixty items, from meshes to hits; the second call finds them in the log."""
    small = {"data": {"furniture_items": 60, "test_items": 4}, "train": {"items": 8}}
    runs = {"one pair": small, "one pair, tuned": {**small, "after": small}}
    monkeypatch.setattr(ablation_runs, "studies", lambda: {"losses": runs})
    args = argparse.Namespace(
        study=["losses"],
        runs=None,
        seeds=[0],
        sets=[[0, 1], [2]],
        steps=2,
        out=tmp_path / "out",
        cache=tmp_path / "cache",
        table=False,
        against=None,
    )
    assert ablation_runs.run(args) == 0
    found = read_runs(tmp_path / "out" / "results.jsonl")
    assert [(run.name, run.steps, run.images) for run in found] == [(name, 2, 16) for name in runs]
    assert all(len(run.hits["text_to_image"]["R@10"]) == 12 for run in found)
    (before,) = (tmp_path / "out").glob("base-*/checkpoint.pt")
    assert checkpoint.read_checkpoint(before).recipe.train.start is None
    tuned = checkpoint.read_checkpoint(tmp_path / "out" / "checkpoint.pt")
    assert tuned.recipe.train.start == str(before)
    monkeypatch.setattr(ablation_runs, "measure", lambda *_: pytest.fail("made again"))
    assert ablation_runs.run(args) == 0
