"""The loop learns, repeats itself, and stops where it must."""

import json
import math
from pathlib import Path

import pytest
import torch

from multifold import durable
from multifold.errors import MultifoldError
from tests.training import small
from training import checkpoint, loop
from training.batches import TrainingBatch
from training.objective import Objective
from training.towers import TwoTowerModel


def losses(folder: Path) -> list[float]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["loss"] for line in lines]


def train(folder: Path, **options: object) -> Path:
    folder.mkdir()
    recipe = small.recipe(**options)
    groups, tokenizer = small.groups(recipe)
    return loop.train(recipe, groups, tokenizer, folder)


def test_it_learns(tmp_path: Path) -> None:
    train(tmp_path / "run")
    chance = math.log(small.recipe().train.items)
    assert losses(tmp_path / "run")[-1] < chance / 4


def test_the_seed_decides_everything(tmp_path: Path) -> None:
    first, second, other = (
        checkpoint.load_checkpoint(train(tmp_path / name, steps=8, views=2, seed=seed)).model.state_dict()
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(
        loop.DivergedError, match=r"became \w+ at step \d+; try a smaller rate; its items are named"
    ):
        train(run, rate=1e30, clip=1e30, steps=40, save_every=1)
    assert not (run / "checkpoint.pt").exists()
    told = json.loads((run / "diverged.json").read_text(encoding="utf-8"))
    assert len(told["items"]) == len(set(told["items"])) == 8
    kept = checkpoint.read_checkpoint(run / loop.LAST)
    assert kept.run is not None
    assert kept.run["step"] == told["step"] - 1


def test_a_gradient_that_is_no_number_never_reaches_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss may be finite where its slope is not: √x at nought."""
    plain = Objective.__call__

    def steep(self: Objective, model: TwoTowerModel, batch: TrainingBatch, progress: float) -> torch.Tensor:
        edge = (model.geometry.temperature() * 0).sqrt() if progress >= 0.5 else 0
        return plain(self, model, batch, progress) + edge

    monkeypatch.setattr(Objective, "__call__", steep)
    with pytest.raises(loop.DivergedError, match=r"the gradient became nan at step 4;.* after step 3"):
        train(tmp_path / "run", steps=8, save_every=1)
    assert all(
        weight.isfinite().all()
        for weight in checkpoint.read_checkpoint(tmp_path / "run" / loop.LAST).weights.values()
    )


def test_more_items_a_step_than_there_are_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(MultifoldError, match="a step takes 17 items, and there are 16; set items = 16"):
        train(tmp_path / "run", items=17)


def test_a_checkpoint_holds_what_it_was_given(tmp_path: Path) -> None:
    path = train(tmp_path / "run", steps=3)
    loaded = checkpoint.load_checkpoint(path)
    assert loaded.recipe == small.recipe(steps=3)
    again = tmp_path / "again.pt"
    checkpoint.save_checkpoint(again, loaded)
    weights = loaded.model.state_dict()
    assert all(
        torch.equal(weights[n], w) for n, w in checkpoint.load_checkpoint(again).model.state_dict().items()
    )
    assert not list(tmp_path.rglob(f"{durable.TEMPORARY_PREFIX}*"))
