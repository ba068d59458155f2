"""Training on a GPU: its steps are those of the CPU, and a run that was stopped there goes on there."""

from pathlib import Path

import pytest
import torch

from tests.training import small
from training import loop
from training.run import TrainingRun

pytestmark = pytest.mark.gpu


def test_the_steps_are_those_of_the_cpu() -> None:
    recipe = small.recipe(steps=5)
    losses = []
    for device in ("cpu", "cuda"):
        run = TrainingRun(recipe, *small.groups(recipe), torch.device(device))
        losses.append([loop.step(run, next(run.batches)) for _ in range(5)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_run_goes_on(tmp_path: Path, precision: str) -> None:
    recipe = small.recipe(steps=6, precision=precision, save_every=3)
    run = TrainingRun(recipe, *small.groups(recipe), torch.device("cuda"))
    for _ in range(3):
        loop.step(run, next(run.batches))
    run.save(tmp_path / loop.LAST)
    assert loop.train(recipe, *small.groups(recipe), tmp_path, resume=True, device="cuda").exists()
