"""An interrupted run ends as an uninterrupted one would have: same losses, same weights, step for step."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from multifold.errors import MultifoldError
from tests.training import small
from training import checkpoint, loop, prepare
from training.loop import BEST, DONE, LAST
from training.objective import Objective
from training.recipes.schema import Recipe, parse_recipe
from training.validation import ValidationSet, choosing_measure

STEPS = 12
HOUSE = Path(__file__).resolve().parents[2]
RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "teacher and draws": {"loss": {"name": "mfh", "text_image": 1.0, "params": {"draws": 2}}},
    "memory": {"loss": {"name": "mfh", "text_image": 1.0, "agg_image": 0.0, "memory": 20}},
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


def recipe(**sections: Any) -> Recipe:  # noqa: ANN401
    train = {"steps": STEPS, "views": 0, "captions": 2, "log_every": 1, "save_every": 5, "warmup": 2}
    raw = small.recipe(**train).model_dump()
    return parse_recipe({**raw, **{name: {**raw[name], **value} for name, value in sections.items()}}, "test")


def train(wanted: Recipe, folder: Path, resume: bool = False) -> Path:
    folder.mkdir(exist_ok=True)
    groups, tokenizer = small.groups(wanted)
    return loop.train(wanted, groups, tokenizer, folder, small.held_out(wanted), resume)


def losses(folder: Path) -> list[tuple[int, float]]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [(line["step"], line["loss"]) for line in lines if "loss" in line]


def same_weights(first: Path, second: Path) -> bool:
    ours, theirs = (checkpoint.read_checkpoint(path).weights for path in (first, second))
    return all(torch.equal(ours[name], theirs[name]) for name in ours.keys() | theirs.keys())


@pytest.mark.parametrize("name", RUNS)
def test_it_goes_on_as_if_nothing_had_happened(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = recipe(**RUNS[name])
    whole = train(wanted, tmp_path / "whole")
    calls = Objective.__call__

    def dies_at(step: int) -> None:
        def called(self: Objective, model: Any, batch: Any, progress: float) -> Any:  # noqa: ANN401
            if round(progress * STEPS) == step:
                raise KilledError
            return calls(self, model, batch, progress)

        monkeypatch.setattr(Objective, "__call__", called)

    for resume, step in ((False, 7), (True, 12)):
        dies_at(step)
        with pytest.raises(KilledError):
            train(wanted, tmp_path / "broken", resume)
        torch.manual_seed(12345)
    monkeypatch.setattr(Objective, "__call__", calls)
    again = train(wanted, tmp_path / "broken", resume=True)
    assert losses(tmp_path / "broken") == losses(tmp_path / "whole")
    assert [step for step, _ in losses(tmp_path / "broken")] == list(range(1, STEPS + 1))
    assert same_weights(again, whole)
    assert [path.name for path in sorted((tmp_path / "broken").iterdir())] == [DONE, "metrics.jsonl"]


@pytest.mark.slow
def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    """Real kills at random moments, until a process gets through."""
    code = (
        "from pathlib import Path; from tests.training.test_run import recipe, train; import sys, torch;"
        "torch.set_num_threads(1);"
        "wanted = recipe(validation={'every': 4, 'items': 4});"
        "train(wanted, Path(sys.argv[1]), sys.argv[2] == 'True')"
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
                wait_for(log, chance.randint(3, STEPS - 2), process)
                process.send_signal(signal.SIGKILL)
            code_of_exit = process.wait()
        assert code_of_exit == (0 if last else -signal.SIGKILL), (tmp_path / "output").read_text()
        assert last or (out / LAST).exists()
    wanted = recipe(validation={"every": 4, "items": 4})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    whole = train(wanted, tmp_path / "whole")
    torch.set_num_threads(threads)
    assert losses(out) == losses(tmp_path / "whole")
    assert same_weights(out / DONE, whole)


def wait_for(log: Path, step: int, process: "subprocess.Popen[bytes]") -> None:
    """Until the log tells of that step."""
    while process.poll() is None:
        if log.exists() and f'"step": {step},' in log.read_text(encoding="utf-8"):
            return
        time.sleep(0.002)


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
    """The held-out numbers are said to fall after step 8: that step's weights are kept."""
    seen = say_found(monkeypatch, [0.2, 0.6, 0.4])
    path = train(recipe(validation={"every": 4}), tmp_path / "run")
    kept = checkpoint.read_checkpoint(path).weights
    assert all(torch.equal(kept[name], weight) for name, weight in seen[1].items())
    assert any(not torch.equal(kept[name], weight) for name, weight in seen[2].items())
    assert not (tmp_path / "run" / BEST).exists()


def test_an_encoder_that_training_spoils_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that finds less than what it began with says so, and ends with that."""
    start = str(train(recipe(), tmp_path / "before"))
    seen = say_found(monkeypatch, [0.5, 0.2, 0.4, 0.4])
    wanted = recipe(validation={"every": 4}, train={"start": start})
    kept = checkpoint.read_checkpoint(train(wanted, tmp_path / "run")).weights
    assert all(torch.equal(kept[name], weight) for name, weight in seen[0].items())
    told = capsys.readouterr().out
    assert "no step was better than the encoder that the run started from, which is kept" in told
    assert "with 4 items, differences of recall below 0.63 are not significant" in told


@pytest.mark.parametrize(
    ("wanted", "items", "chosen"),
    [("R@10", 100, "R@10"), ("R@10", 99, "MRR"), ("R@1", 10, "R@1"), ("R@1", 9, "MRR"), ("MRR", 500, "MRR")],
)
def test_with_few_items_a_finer_measure_chooses_the_step(wanted: str, items: int, chosen: str) -> None:
    assert choosing_measure(wanted, items) == chosen


def test_reciprocal_ranks_tell_encoders_apart_that_recall_does_not(tmp_path: Path) -> None:
    """Of four items all are among ten, before and after a training."""
    views, captions = small.pictures()
    found = []
    for steps in (1, 80):
        wanted = recipe(train={"steps": steps, "warmup": 0})
        trained = checkpoint.load_checkpoint(train(wanted, tmp_path / str(steps)))
        few = ValidationSet(views[:4], captions[:4], prepare.reader(wanted, trained.tokenizer))
        found.append(few.measure(trained.model))
    assert [numbers["text_to_shape/R@10"] for numbers in found] == [1.0, 1.0]
    assert found[0]["text_to_shape/MRR"] < found[1]["text_to_shape/MRR"] <= 1.0
    assert found[1]["text_to_shape/R@1"] <= found[1]["text_to_shape/MRR"]


def test_validation_changes_no_loss(tmp_path: Path) -> None:
    train(recipe(), tmp_path / "without")
    train(recipe(validation={"every": 3}), tmp_path / "with")
    assert losses(tmp_path / "with") == losses(tmp_path / "without")
    log = (tmp_path / "with" / "metrics.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in log.splitlines()]
    measured = [line for line in lines if "val/text_to_shape/R@10" in line]
    assert [line["step"] for line in measured] == [3, 6, 9, 12]
    assert all(0 <= line["val/shape_to_text/R@1"] <= 1 for line in measured)


def test_another_recipe_or_other_data_do_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_finish", lambda _run, out: out)
    train(recipe(), tmp_path / "run")
    with pytest.raises(MultifoldError, match=r"last\.pt follows another recipe: \[geometry\] differs"):
        train(recipe(geometry={"params": {"scale": 10.0}}), tmp_path / "run", resume=True)
    monkeypatch.setattr(small, "COLOURS", {**small.COLOURS, "grey": (9, 9, 9), "pink": (250, 100, 150)})
    with pytest.raises(MultifoldError, match="has learned from other items or captions"):
        train(recipe(), tmp_path / "run", resume=True)


def test_a_model_is_no_run(tmp_path: Path) -> None:
    path = train(recipe(), tmp_path / "run")
    path.rename(tmp_path / "run" / LAST)
    with pytest.raises(MultifoldError, match="holds a model, and no run that could go on"):
        train(recipe(), tmp_path / "run", resume=True)


def test_a_torn_checkpoint_is_said_plainly(tmp_path: Path) -> None:
    path = train(recipe(), tmp_path / "run")
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(MultifoldError, match="is no checkpoint, or not a whole one"):
        checkpoint.load_checkpoint(path)
