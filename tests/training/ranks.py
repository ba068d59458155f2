"""What two processes of torchrun do in test_ranks.py; also done by one, to compare.

python -m torch.distributed.run --nproc-per-node 2 -m tests.training.ranks OUT
"""

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.training import small
from training.distributed import SINGLE_PROCESS, ProcessRank, join_processes
from training.geometries import GEOMETRIES
from training.geometries.base import EntailmentGeometry
from training.objective import Objective
from training.recipes.schema import Recipe
from training.run import TrainingRun

ITEMS, STEPS, BREAK = 7, 6, 5
CLOUDS = ("cloud_linear", "cloud_gaussian", "cloud_imq")
ALL_WAYS = {"text_image": 0.5, "agg_image": 0.3, "agg_text": 0.1, "agg_both": 0.1}
OTHERS: dict[str, dict[str, Any]] = {
    "in blocks": {"loss": {"name": "mfh", **ALL_WAYS, "block": 3}},
    "in chunks": {"loss": {"name": "mfh", **ALL_WAYS}, "train": {"chunk": 2}},
    "even": {"loss": {"name": "mfh_even", **ALL_WAYS, "block": 3}},
    "pairs": {"loss": {"name": "infonce_mask", "text_image": 1.0}},
}


class KilledError(Exception):
    """Stands for a process that ends in the middle of a step."""


def recipes() -> dict[str, Recipe]:
    """Each geometry with MFH in all ways; and the other ways to compute a loss."""
    return {name: _of(name) for name in GEOMETRIES} | {
        name: _recipe(**sections) for name, sections in OTHERS.items()
    }


def _of(geometry: str) -> Recipe:
    cone = {"weight": 0.3} if issubclass(GEOMETRIES[geometry], EntailmentGeometry) else {}
    tokens: object = "all" if geometry in CLOUDS else 4 if geometry == "oblique_multi" else "class"
    params = {"m": 4} if geometry.startswith("oblique") else {}
    return _recipe(
        geometry={"name": geometry, "params": params},
        loss={"name": "mfh", **ALL_WAYS, "entailment": cone},
        image={"tokens": tokens},
        text={"tokens": tokens},
    )


def _recipe(**sections: Mapping[str, Any]) -> Recipe:
    run = {"items": ITEMS, "views": 2, "captions": 0, "steps": STEPS, "warmup": 1, "log_every": 1}
    return small.recipe(sections, **run, save_every=3)


def slopes(recipe: Recipe, ranks: ProcessRank) -> dict[str, Tensor]:
    """The loss and every gradient of the second step."""
    run = TrainingRun(recipe, *small.groups(recipe), torch.device("cpu"), ranks=ranks)
    for _ in range(2):
        run.step += 1
        run.model.geometry.resample(run.draws)
        loss = run.objective(run.model, next(run.batches), 0.5)
        run.optimizer.zero_grad()
        loss.backward()
        ranks.add_gradients(run.model)
    found = {name: weight.grad for name, weight in run.model.named_parameters() if weight.grad is not None}
    return {"loss": ranks.total(loss), **found}


def broken_run(out: Path, ranks: ProcessRank) -> None:
    """A run that dies and goes on."""
    calls, recipe = Objective.__call__, _recipe(**OTHERS["in blocks"], validation={"every": 3, "items": 4})

    def dies(self: Objective, model: Any, batch: Any, progress: float) -> Tensor:  # noqa: ANN401
        if round(progress * STEPS) == BREAK:
            raise KilledError
        return calls(self, model, batch, progress)

    for resume, call in ((False, dies), (True, calls)):
        Objective.__call__ = call  # type: ignore[method-assign]
        with suppress(KilledError):
            small.train(recipe, out, resume, ranks)


def everything(out: Path, ranks: ProcessRank = SINGLE_PROCESS) -> None:
    """All of it, the results of the first rank written down."""
    found = {name: slopes(recipe, ranks) for name, recipe in recipes().items()}
    if ranks.is_first:
        out.mkdir(exist_ok=True)
        torch.save(found, out / "slopes.pt")
    with ranks.first_alone():
        (out / "run").mkdir(exist_ok=True)
    broken_run(out / "run", ranks)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with join_processes("cpu") as (mine, _):
        assert mine.count == 2
        everything(Path(sys.argv[1]), mine)
