"""The loop learns, repeats itself, and stops where it must."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from multifold.errors import MultifoldError
from tests.training import small
from training import checkpoint, loop
from training.batches import TrainingBatch
from training.objective import Objective
from training.recipes.schema import Recipe, with_steps_for
from training.run import learning_rate, make_optimizer
from training.towers import TwoTowerModel

HOUSE = Path(__file__).resolve().parents[2]


def train(folder: Path, **options: object) -> dict[str, torch.Tensor]:
    """The weights that a run ends with."""
    return small.weights(small.train(small.recipe(**options), folder))


def test_it_learns(trained_run: Path) -> None:
    chance = math.log(small.recipe().train.items)
    assert small.losses(trained_run.parent)[-1] < chance / 4


def test_the_seed_decides_everything(tmp_path: Path) -> None:
    first, second, other = (
        train(tmp_path / name, steps=6, views=2, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert small.same(first, second)
    assert not small.same(first, other)


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    said = r"became \w+ at step \d+; try a smaller rate; its items are named"
    with pytest.raises(loop.DivergedError, match=said):
        train(tmp_path, rate=1e30, clip=1e30, steps=40, save_every=1)
    assert not (tmp_path / "checkpoint.pt").exists()
    told = json.loads((tmp_path / "diverged.json").read_text(encoding="utf-8"))
    assert len(told["items"]) == len(set(told["items"])) == 8
    kept = checkpoint.read_checkpoint(tmp_path / loop.LAST)
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
        train(tmp_path, steps=8, save_every=1)
    assert all(weight.isfinite().all() for weight in small.weights(tmp_path / loop.LAST).values())


def test_more_items_a_step_than_there_are_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(MultifoldError, match=r"takes 17 items, and there are 16; give --set train\.items=16"):
        train(tmp_path, items=17)


def test_the_optimizer_is_the_one_that_was_asked_for() -> None:
    """One step from the weight 2 with gradient 1: Adam's coupled decay is lost in its normalisation."""
    for name, decay in (("adamw", 0.5), ("adam", 0.5), ("adam", 0.0)):
        section = small.recipe(optimizer=name, weight_decay=decay, rate=0.1, betas=[0.8, 0.9], eps=1e-4).train
        layer = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(layer.weight, 2.0)
        made = make_optimizer(layer, section)
        assert (made.defaults["betas"], made.defaults["eps"]) == ((0.8, 0.9), 1e-4)
        layer.weight.grad = torch.ones(1, 1)
        made.step()
        expected = 2 * (1 - 0.1 * decay) - 0.1 if name == "adamw" else 1.9
        assert layer.weight.item() == pytest.approx(expected, abs=1e-4)


def test_the_rate_warms_up_and_falls_to_nothing() -> None:
    section = small.recipe(warmup=4, steps=24).train
    rates = [learning_rate(step, section) for step in range(25)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[14] == pytest.approx(0.5)
    assert rates[24] == pytest.approx(0)
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert learning_rate(0, small.recipe(warmup=0).train) == 1


def test_epochs_are_counted_in_steps() -> None:
    def steps(recipe: Recipe, count: int) -> int:
        return with_steps_for(recipe, count).train.steps

    assert steps(small.recipe(items=70, epochs=10), 11921) == 1703  # MXM-CLR's run on Text2Shape
    assert steps(small.recipe(items=8, steps=5), 1000) == 5
    assert steps(small.recipe(items=8, epochs=0.001), 16) == 1


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_takes_nearly_the_same_steps(tmp_path: Path, precision: str) -> None:
    """The same steps at first, but for rounding; what is learned is kept in full."""
    train(tmp_path / "full", steps=6, log_every=1)
    found = train(tmp_path / "half", steps=6, log_every=1, precision=precision)
    full, half = small.losses(tmp_path / "full"), small.losses(tmp_path / "half")
    assert half != full
    assert half == pytest.approx(full, abs=0.1)
    assert all(weight.dtype not in (torch.bfloat16, torch.float16) for weight in found.values())


@pytest.mark.slow
def test_a_compiled_model_takes_the_same_steps(tmp_path: Path) -> None:
    """In a process of its own, where no type checks stand in the compiler's way; its C++ is left out."""
    code = (
        "from functools import partialmethod; from pathlib import Path; import sys, torch;"
        "from tests.training.test_loop import train;"
        "torch.nn.Module.compile = partialmethod(torch.nn.Module.compile, backend='aot_eager');"
        "train(Path(sys.argv[1]), steps=4, log_every=1, compile=sys.argv[2] == 'compiled')"
    )
    for name in ("plain", "compiled"):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name), name], cwd=HOUSE, check=True)
    assert small.losses(tmp_path / "compiled") == pytest.approx(small.losses(tmp_path / "plain"), abs=1e-4)
