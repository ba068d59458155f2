"""The training loop, linear from top to bottom.

In the run's folder: `metrics.jsonl`; while it is under way `last.pt`, from which it can go on, and `best.pt`,
the best step on the val split so far; in the end `checkpoint.pt`.
"""

import json
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import nn

from multifold.durable import remove_temporary_files
from multifold.errors import MultifoldError
from training import checkpoint, validation
from training.batches import TrainingBatch, TrainingItems
from training.distributed import SINGLE_PROCESS, ProcessRank
from training.recipes.schema import Recipe
from training.run import TrainingRun
from training.run_log import METRICS, RunLog
from training.towers.tokenizers import TrainedTokenizer
from training.validation import ValidationSet

LAST, BEST, DONE = "last.pt", "best.pt", "checkpoint.pt"


class DivergedError(MultifoldError):
    """A loss or a gradient that is not finite."""


def train(
    recipe: Recipe,
    groups: TrainingItems,
    tokenizer: TrainedTokenizer,
    out: Path,
    held_out: ValidationSet | None = None,
    resume: bool = False,
    device: str = "cpu",
    ranks: ProcessRank = SINGLE_PROCESS,
) -> Path:
    """Follow the recipe, from the start or from `last.pt`; the path of the checkpoint in `out`."""
    run = TrainingRun(recipe, groups, tokenizer, torch.device(device), fresh=not resume, ranks=ranks)
    if ranks.is_first:
        remove_temporary_files(out)
    if resume:
        run.restore(out / LAST)
    else:
        if ranks.is_first:
            (out / BEST).unlink(missing_ok=True)
        run.save(out / LAST)
    if recipe.train.compile:
        run.model.image.compile()
        run.model.text.compile()
    with RunLog(out, run) if ranks.is_first else nullcontext() as log:
        if log is not None and held_out is not None and not run.step and begins_with_weights(recipe):
            keep_best(run, held_out, log, out)  # what it begins with may be better than what it learns
        while run.step < recipe.train.steps:
            batch = next(run.batches)
            run.step += 1
            try:
                loss = step(run, batch)
            except DivergedError as error:
                raise DivergedError(f"{error}; {_blame(run, groups, batch, out)}") from None
            due = run.step == recipe.train.steps or run.step % max(1, recipe.validation.every) == 0
            if log is not None:
                log.step(run, loss)
                if held_out is not None and due:
                    keep_best(run, held_out, log, out)
            if run.step % recipe.train.save_every == 0:
                run.save(out / LAST)
    path = _finish(run, out)
    if held_out is not None:
        ranks.say(validation.outcome(out / METRICS, held_out.chooses, len(held_out.captions)))
    return path


def begins_with_weights(recipe: Recipe) -> bool:
    """Whether a run goes on from what was learned before, and does not begin by chance."""
    towers = (recipe.image, recipe.text)
    return recipe.train.start is not None or any(getattr(tower, "pretrained", None) for tower in towers)


def keep_best(run: TrainingRun, held_out: ValidationSet, log: RunLog, out: Path) -> None:
    """Measure on the val split; the best step is kept, the later one of two alike."""
    numbers = held_out.measure(run.model)
    log.validation(run.step, numbers)
    if (score := validation.score(numbers, held_out.chooses)) >= run.best:
        run.best = score
        checkpoint.save_checkpoint(out / BEST, run.checkpoint)


def step(run: TrainingRun, batch: TrainingBatch) -> float:
    """One optimizer step; returns the loss before it."""
    train = run.recipe.train
    run.ranks.begin(train.seed, run.step)
    run.model.geometry.resample(run.draws)
    half = torch.float16 if train.precision == "fp16" else torch.bfloat16
    with torch.autocast(run.device.type, half, enabled=train.precision != "fp32"):
        loss = run.objective(run.learning, batch.on(run.device), run.step / train.steps)
    whole = run.ranks.total(loss)
    if not torch.isfinite(whole):
        raise DivergedError(f"the loss became {whole.item()} at step {run.step}; try a smaller rate")
    run.optimizer.zero_grad()
    run.scaler.scale(loss).backward()
    run.ranks.add_gradients(run.model)
    run.scaler.unscale_(run.optimizer)
    norm = nn.utils.clip_grad_norm_(run.model.parameters(), train.clip)
    if (
        not torch.isfinite(norm) and not run.scaler.is_enabled()
    ):  # fp16: the step is left out, the scale halved
        raise DivergedError(f"the gradient became {norm.item()} at step {run.step}; try a smaller rate")
    run.scaler.step(run.optimizer)
    run.scaler.update()
    run.schedule.step()
    run.model.geometry.clamp()
    run.objective.after_step(run.learning)
    return whole.item()


def _blame(run: TrainingRun, groups: TrainingItems, batch: TrainingBatch, out: Path) -> str:
    """Write down the items of the step; the sentence that names the file."""
    if not run.ranks.is_first:
        return "see the message of the first process"
    items = batch.view_items.unique().tolist()
    content = {"step": run.step, "items": [groups.ids[item] for item in items] if groups.ids else items}
    names = out / "diverged.json"
    names.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    last = checkpoint.read_checkpoint(out / LAST).run
    assert last is not None
    return f"its items are named in {names}, and {out / LAST} holds the model after step {last['step']}"


def _finish(run: TrainingRun, out: Path) -> Path:
    """The best step, or else the last, becomes the checkpoint; the unfinished run is removed."""
    if not run.ranks.is_first:
        return out / DONE
    if (out / BEST).exists():
        checkpoint.copy_checkpoint(out / BEST, out / DONE)
    else:
        checkpoint.save_checkpoint(out / DONE, run.checkpoint)
    (out / LAST).unlink()
    (out / BEST).unlink(missing_ok=True)
    return out / DONE
