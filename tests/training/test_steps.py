"""What a step may be asked for: an optimizer, half precision, compilation, passes in place of steps."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training import small
from training import checkpoint, loop
from training.recipes.schema import Recipe, with_steps_for
from training.run import learning_rate, make_optimizer

HOUSE = Path(__file__).resolve().parents[2]


def weights(folder: Path, **options: Any) -> dict[str, torch.Tensor]:  # noqa: ANN401
    folder.mkdir(exist_ok=True)
    wanted = small.recipe(**options)
    groups, tokenizer = small.groups(wanted)
    return dict(checkpoint.read_checkpoint(loop.train(wanted, groups, tokenizer, folder)).weights)


def losses(folder: Path) -> list[float]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["loss"] for line in lines]


def test_the_optimizer_is_the_one_that_was_asked_for() -> None:
    """One step from the weight 2 with gradient 1: Adam's coupled decay is lost in its normalisation."""
    for name, decay in (("adamw", 0.5), ("adam", 0.5), ("adam", 0.0)):
        train = small.recipe(optimizer=name, weight_decay=decay, rate=0.1, betas=[0.8, 0.9], eps=1e-4).train
        layer = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(layer.weight, 2.0)
        made = make_optimizer(layer, train)
        assert made.defaults["betas"] == (0.8, 0.9)
        assert made.defaults["eps"] == 1e-4
        layer.weight.grad = torch.ones(1, 1)
        made.step()
        expected = 2 * (1 - 0.1 * decay) - 0.1 if name == "adamw" else 1.9
        assert layer.weight.item() == pytest.approx(expected, abs=1e-4)


def test_the_rate_warms_up_and_falls_to_nothing() -> None:
    train = small.recipe(warmup=4, steps=24).train
    rates = [learning_rate(step, train) for step in range(25)]
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
    weights(tmp_path / "full", steps=6, log_every=1)
    found = weights(tmp_path / "half", steps=6, log_every=1, precision=precision)
    full, half = losses(tmp_path / "full"), losses(tmp_path / "half")
    assert half != full
    assert half == pytest.approx(full, abs=0.1)
    assert all(weight.dtype not in (torch.bfloat16, torch.float16) for weight in found.values())


@pytest.mark.slow
def test_a_compiled_model_takes_the_same_steps(tmp_path: Path) -> None:
    """In a process of its own, where no type checks stand in the compiler's way; its C++ is left out."""
    code = (
        "from functools import partialmethod; from pathlib import Path; import sys, torch;"
        "from tests.training.test_steps import weights;"
        "torch.nn.Module.compile = partialmethod(torch.nn.Module.compile, backend='aot_eager');"
        "weights(Path(sys.argv[1]), steps=4, log_every=1, compile=sys.argv[2] == 'compiled')"
    )
    for name in ("plain", "compiled"):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name), name], cwd=HOUSE, check=True)
    assert losses(tmp_path / "compiled") == pytest.approx(losses(tmp_path / "plain"), abs=1e-4)
