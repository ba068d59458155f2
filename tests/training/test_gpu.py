"""Training on a GPU: its steps are those of the CPU, and a run that was stopped there goes on there."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training import small
from training import loop
from training.evaluate.evaluated_checkpoint import evaluated_checkpoint
from training.run import TrainingRun

pytestmark = pytest.mark.gpu


def test_the_steps_are_those_of_the_cpu() -> None:
    recipe = small.recipe(steps=5)
    losses = []
    for device in ("cpu", "cuda"):
        run = TrainingRun(recipe, *small.groups(recipe), torch.device(device))
        losses.append([loop.step(run, next(run.batches)) for _ in range(5)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


@pytest.mark.parametrize("name", ["clip", "cloud_gaussian", "oblique_geodesic"])
def test_what_is_measured_is_that_of_the_cpu(tmp_path: Path, name: str) -> None:
    """Vectors, what a probe reads, explanations and other draws: a checkpoint gives them on either device."""
    sides = {side: {"tokens": "all"} for side in ("image", "text")} if "cloud" in name else {}
    path = small.train(small.recipe({"geometry": {"name": name}, **sides}, steps=2, warmup=0), tmp_path)
    pixels = np.asarray(small.pictures()[0][:4, 0])
    found = []
    for device in ("cpu", "cuda"):
        subject = evaluated_checkpoint(path, device)
        assert subject.before_projection is not None
        assert subject.explainer is not None
        if subject.redraw is not None:
            subject.redraw(16, 0)
        said, seen = subject.encoder.texts(["a red square"]).features, subject.encoder.pixels(pixels)
        vectors = subject.encoder.vectors(seen)
        text = subject.encoder.vectors(said)[0]
        heat = subject.explainer(None).picture(pixels[0], text).grid
        found.append([said, vectors, subject.before_projection(pixels), heat])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_run_goes_on(tmp_path: Path, precision: str) -> None:
    recipe = small.recipe(steps=6, precision=precision, save_every=3)
    run = TrainingRun(recipe, *small.groups(recipe), torch.device("cuda"))
    for _ in range(3):
        loop.step(run, next(run.batches))
    run.save(tmp_path / loop.LAST)
    assert loop.train(recipe, *small.groups(recipe), tmp_path, resume=True, device="cuda").exists()
