"""The loop learns, repeats itself, and stops where it must."""

import json
import math
from pathlib import Path

import pytest
import torch

from tests.training import small
from training import checkpoint, loop


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
        checkpoint.load(train(tmp_path / name, steps=8, views=2, seed=seed)).model.state_dict()
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(loop.DivergedError, match=r"the loss became nan at step \d+; try a smaller rate"):
        train(tmp_path / "run", rate=1e30, clip=1e30, steps=40)
    assert not (tmp_path / "run" / "checkpoint.pt").exists()


def test_a_checkpoint_holds_what_it_was_given(tmp_path: Path) -> None:
    path = train(tmp_path / "run", steps=3)
    loaded = checkpoint.load(path)
    assert loaded.recipe == small.recipe(steps=3)
    again = tmp_path / "again.pt"
    checkpoint.save(again, loaded)
    weights = loaded.model.state_dict()
    assert all(torch.equal(weights[n], w) for n, w in checkpoint.load(again).model.state_dict().items())
    assert not list(tmp_path.rglob("*.partial"))
