"""The training loop, linear from top to bottom."""

import json
import math
import time
from itertools import islice
from pathlib import Path

import torch
from torch import nn
from tqdm import tqdm

from multifold.errors import MultifoldError
from training import start
from training.batches import Groups, batches
from training.checkpoint import Checkpoint
from training.checkpoint import save as save_checkpoint
from training.objective import Objective
from training.recipe import Recipe, Train
from training.tokenizers import TrainedTokenizer

LOG_EVERY = 20


class DivergedError(MultifoldError):
    """The loss is no number any more."""


def train(recipe: Recipe, groups: Groups, tokenizer: TrainedTokenizer, out: Path) -> Path:
    """Follow the recipe; write `metrics.jsonl` and a checkpoint into `out`."""
    torch.manual_seed(recipe.train.seed)
    draws = torch.Generator().manual_seed(recipe.train.seed)
    model = start.model(recipe, tokenizer.vocabulary)
    objective = Objective(recipe, model)
    optimizer = torch.optim.AdamW(_parameters(model, recipe.train), lr=recipe.train.rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, recipe.train))
    steps = tqdm(
        islice(batches(groups, recipe.train), recipe.train.steps), total=recipe.train.steps, unit="step"
    )
    started = time.monotonic()
    with open(out / "metrics.jsonl", "w", encoding="utf-8") as log:
        for step, batch in enumerate(steps, start=1):
            model.geometry.resample(draws)
            loss = objective(model, batch, step / recipe.train.steps)
            if not torch.isfinite(loss):
                raise DivergedError(f"the loss became {loss.item()} at step {step}; try a smaller rate")
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), recipe.train.clip)
            optimizer.step()
            schedule.step()
            model.geometry.clamp()
            objective.after_step(model)
            if step % LOG_EVERY == 0 or step == recipe.train.steps:
                seconds = time.monotonic() - started
                entry = {"step": step, "loss": round(loss.item(), 4), "seconds": round(seconds, 1)}
                log.write(json.dumps(entry) + "\n")
                log.flush()
                steps.set_postfix(loss=f"{loss.item():.3f}")
    path = out / "checkpoint.pt"
    save_checkpoint(path, Checkpoint(recipe, tokenizer, model))
    return path


def _rate(step: int, train: Train) -> float:
    """Linear warm-up, then half a cosine down to nothing."""
    if step < train.warmup:
        return (step + 1) / train.warmup
    done = (step - train.warmup) / max(1, train.steps - train.warmup)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def _parameters(model: nn.Module, train: Train) -> list[dict[str, object]]:
    """Weight decay is for matrices; gains, biases, positions and scalars go without."""
    matrices = [p for n, p in model.named_parameters() if p.ndim >= 2 and "positions" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim < 2 or "positions" in n]
    return [
        {"params": matrices, "weight_decay": train.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
