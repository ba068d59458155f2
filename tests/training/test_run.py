"""An interrupted run ends as an uninterrupted one would have: same losses, same weights, step for step."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from multifold.errors import MultifoldError
from tests.training import small
from tests.waiting import until
from training import checkpoint, loop
from training.loop import BEST, DONE, LAST
from training.objective import Objective
from training.recipes.schema import Recipe
from training.validation import ValidationSet, choosing_measure

STEPS = 8
HOUSE = Path(__file__).resolve().parents[2]
RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "teacher and draws": {"loss": {"name": "mfh", "text_image": 1.0, "params": {"draws": 2}}},
    "even": {"loss": {"name": "mfh_even", "text_image": 1.0, "agg_image": 0.0}},
    "own chance": {"loss": {"name": "robust_xr"}},
    "random frequencies": {
        "geometry": {"name": "cloud_gaussian", "params": {"frequencies": 16}},
        "image": {"tokens": "all"},
        "text": {"tokens": "all"},
    },
}


class KilledError(Exception):
    """Stands for a process that ends in the middle of a step."""


def recipe(sections: dict[str, Any] | None = None, **train: object) -> Recipe:
    options = {"steps": STEPS, "views": 0, "captions": 2, "log_every": 1, "save_every": 3, "warmup": 2}
    return small.recipe(sections, **{**options, **train})


def steps(folder: Path) -> list[tuple[int, float]]:
    """With their losses."""
    return [(line["step"], line["loss"]) for line in small.told(folder) if "loss" in line]


@pytest.mark.parametrize("name", RUNS)
def test_it_goes_on_as_if_nothing_had_happened(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, broken = recipe(RUNS[name]), tmp_path / "broken"
    whole = small.train(wanted, tmp_path / "whole")
    calls = Objective.__call__

    def dies_at(step: int) -> None:
        def called(self: Objective, model: Any, batch: Any, progress: float) -> Any:  # noqa: ANN401
            if round(progress * STEPS) == step:
                raise KilledError
            return calls(self, model, batch, progress)

        monkeypatch.setattr(Objective, "__call__", called)

    for resume, step in ((False, 5), (True, STEPS)):
        dies_at(step)
        with pytest.raises(KilledError):
            small.train(wanted, broken, resume)
        torch.manual_seed(12345)
    monkeypatch.setattr(Objective, "__call__", calls)
    again = small.train(wanted, broken, resume=True)
    assert steps(broken) == steps(tmp_path / "whole")
    assert [step for step, _ in steps(broken)] == list(range(1, STEPS + 1))
    assert small.same(small.weights(again), small.weights(whole))
    assert [path.name for path in sorted(broken.iterdir())] == [DONE, "metrics.jsonl"]


def is_told(log: Path, step: int, process: "subprocess.Popen[bytes]") -> bool:
    """Whether the log of a process has a step, or none will come any more."""
    return process.poll() is not None or (log.exists() and f'"step": {step},' in log.read_text("utf-8"))


VALIDATED = {"validation": {"every": 4, "items": 4}}


@pytest.mark.slow
def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    """Real kills at random moments, until a process gets through."""
    code = (
        "from pathlib import Path; from tests.training import small; import sys, torch;"
        "from tests.training.test_run import VALIDATED, recipe; torch.set_num_threads(1);"
        "small.train(recipe(VALIDATED, steps=20), Path(sys.argv[1]), sys.argv[2] == 'True')"
    )
    out, log = tmp_path / "killed", tmp_path / "killed" / "metrics.jsonl"
    chance = random.Random(0)
    for last in (False, False, True):
        resume = (out / LAST).exists()
        with open(tmp_path / "output", "wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", code, str(out), str(resume)],
                cwd=HOUSE,
                stdout=output,
                stderr=output,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            if not last:
                until(partial(is_told, log, chance.randint(3, 14), process))
                process.send_signal(signal.SIGKILL)
            code_of_exit = process.wait()
        assert code_of_exit == (0 if last else -signal.SIGKILL), (tmp_path / "output").read_text()
        assert last or (out / LAST).exists()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    whole = small.train(recipe(VALIDATED, steps=20), tmp_path / "whole")
    torch.set_num_threads(threads)
    assert steps(out) == steps(tmp_path / "whole")
    assert small.same(small.weights(out / DONE), small.weights(whole))


def say_found(patch: pytest.MonkeyPatch, recalls: Sequence[float]) -> list[dict[str, torch.Tensor]]:
    """Let validations find these recalls; the weights at each of them are listed as they come."""
    seen: list[dict[str, torch.Tensor]] = []
    found = iter(recalls)

    def measure(_self: ValidationSet, model: torch.nn.Module) -> dict[str, float]:
        seen.append({name: weight.clone() for name, weight in model.state_dict().items()})
        value = next(found)
        return {"text_to_shape/R@10": value, "shape_to_text/R@10": value}

    patch.setattr(ValidationSet, "measure", measure)
    return seen


def test_the_best_step_on_val_becomes_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The held-out numbers are said to fall after the second time: the weights of then are kept."""
    seen = say_found(monkeypatch, [0.2, 0.6, 0.4, 0.3])
    kept = small.weights(small.train(recipe({"validation": {"every": 2}}), tmp_path))
    assert small.same(kept, seen[1])
    assert not small.same(kept, seen[2])
    assert not (tmp_path / BEST).exists()


def test_an_encoder_that_training_spoils_is_kept(
    trained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that finds less than what it began with says so, and ends with that."""
    seen = say_found(monkeypatch, [0.5, 0.2, 0.4])
    wanted = recipe({"validation": {"every": 4}}, start=str(trained_run))
    assert small.same(small.weights(small.train(wanted, tmp_path)), seen[0])
    told = capsys.readouterr().out
    assert "no step was better than the encoder that the run started from, which is kept" in told
    assert "with 4 items, differences of recall below 0.63 are not significant" in told
    assert "where chance is 1.000" in told
    assert "The encoder knows no more than chance: it needs more items, or more steps" in told


@pytest.mark.parametrize(
    ("wanted", "items", "chosen"),
    [("R@10", 100, "R@10"), ("R@10", 99, "MRR"), ("R@1", 10, "R@1"), ("R@1", 9, "MRR"), ("MRR", 500, "MRR")],
)
def test_with_few_items_a_finer_measure_chooses_the_step(wanted: str, items: int, chosen: str) -> None:
    assert choosing_measure(wanted, items) == chosen


def test_reciprocal_ranks_tell_encoders_apart_that_recall_does_not(trained_run: Path) -> None:
    """Of four items all are among ten, before and after a training."""
    held_out = small.held_out(small.recipe({"validation": {"every": 1}}))
    assert held_out is not None
    fresh, trained = small.model(small.recipe()).eval(), checkpoint.load_checkpoint(trained_run).model
    found = [held_out.measure(model) for model in (fresh, trained)]
    assert [numbers["text_to_shape/R@10"] for numbers in found] == [1.0, 1.0]
    assert found[0]["text_to_shape/MRR"] < found[1]["text_to_shape/MRR"] <= 1.0
    assert found[1]["text_to_shape/R@1"] <= found[1]["text_to_shape/MRR"]


def test_validation_changes_no_loss(tmp_path: Path) -> None:
    small.train(recipe(), tmp_path / "without")
    small.train(recipe({"validation": {"every": 3}}), tmp_path / "with")
    assert steps(tmp_path / "with") == steps(tmp_path / "without")
    measured = [line for line in small.told(tmp_path / "with") if "val/text_to_shape/R@10" in line]
    assert [line["step"] for line in measured] == [3, 6, 8]
    assert all(0 <= line["val/shape_to_text/R@1"] <= 1 for line in measured)


def test_what_is_another_run_does_not_go_on(
    trained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_finish", lambda _run, out: out)
    small.train(recipe(), tmp_path)
    with pytest.raises(MultifoldError, match=r"last\.pt follows another recipe: \[geometry\] differs"):
        small.train(recipe({"geometry": {"params": {"scale": 10.0}}}), tmp_path, resume=True)
    monkeypatch.setattr(small, "COLOURS", {**small.COLOURS, "grey": (9, 9, 9), "pink": (250, 100, 150)})
    with pytest.raises(MultifoldError, match="has learned from other items or captions"):
        small.train(recipe(), tmp_path, resume=True)
    (tmp_path / LAST).write_bytes(trained_run.read_bytes())
    with pytest.raises(MultifoldError, match="holds a model, and no run that could go on"):
        small.train(recipe(), tmp_path, resume=True)
