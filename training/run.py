"""A training under way: everything that its next step depends on, and how that is kept and restored."""

import math
from functools import partial
from pathlib import Path

import torch
from torch import nn

from multifold.errors import MultifoldError
from training import checkpoint, frozen, rules
from training.batches import BatchStream, TrainingItems
from training.checkpoint import Checkpoint
from training.distributed import SINGLE_PROCESS, ProcessRank
from training.objective import Objective
from training.recipes.schema import Recipe, TrainSection
from training.towers import build_model
from training.towers.tokenizers import TrainedTokenizer


class TrainingRun:
    """Model, optimizer, teacher, random numbers and the place in the data, after `step` steps.

    One that is not `fresh` waits for `restore`, and needs no weights to begin with.
    """

    def __init__(
        self,
        recipe: Recipe,
        groups: TrainingItems,
        tokenizer: TrainedTokenizer,
        device: torch.device,
        fresh: bool = True,
        ranks: ProcessRank = SINGLE_PROCESS,
    ) -> None:
        torch.manual_seed(recipe.train.seed)
        self.recipe = recipe
        self.tokenizer = tokenizer
        self.data = groups.fingerprint()
        self.draws = torch.Generator().manual_seed(recipe.train.seed)
        begin = checkpoint.starting_model if fresh else partial(build_model, pretrained=False)
        self.model = begin(recipe, tokenizer.vocabulary).to(device)
        rules.check_model(self.model, recipe.train, ranks.count)
        ranks.agree(self.model)
        self.ranks = ranks
        if fresh:
            groups = frozen.encode_frozen(self.model, groups, recipe)
        self.learning = frozen.without_frozen(self.model, recipe)  # what the steps run through
        self.objective = Objective(recipe, self.learning, ranks)
        self.optimizer = make_optimizer(self.model, recipe.train)
        rate = partial(learning_rate, train=recipe.train)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, rate)
        scaled = recipe.train.precision == "fp16"
        self.scaler = torch.amp.GradScaler(device.type, init_scale=2.0**10, enabled=scaled)
        self.batches = BatchStream(groups, recipe.train, ranks)
        self.device = device
        self.step, self.seconds, self.best = 0, 0.0, -math.inf

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.recipe, self.tokenizer, self.model)

    def save(self, path: Path) -> None:
        """Store the run so that it can be resumed; the first rank writes for all."""
        if not self.ranks.is_first:
            return
        teacher = self.objective.teacher
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "best": self.best,
            "data": self.data,
            "batches": self.batches.state(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "teacher": None if teacher is None else teacher.model.state_dict(),
            "random": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
            "draws": self.draws.get_state(),
        }
        checkpoint.save_checkpoint(path, self.checkpoint, state)

    def restore(self, path: Path) -> None:
        """Resume a stored run, with the same recipe and the same data."""
        content = checkpoint.read_checkpoint(path)
        if content.run is None:
            raise MultifoldError(f"{path} holds a model, and no run that could go on; name it as train.start")
        ours, theirs = self.recipe.model_dump(), content.recipe.model_dump()
        if differing := [name for name in ours if ours[name] != theirs[name]]:
            other = f"{path} follows another recipe: [{differing[0]}] differs"
            raise MultifoldError(f"{other}; begin in a new folder")
        if content.run["data"] != self.data:
            raise MultifoldError(f"{path} has learned from other items or captions; begin in a new folder")
        self.model.load_state_dict(content.weights)
        self.batches.groups = frozen.encode_frozen(self.model, self.batches.groups, self.recipe)
        state = content.run
        self.step, self.seconds, self.best = state["step"], state["seconds"], state["best"]
        self.batches.restore(state["batches"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        if self.objective.teacher is not None:
            self.objective.teacher.model.load_state_dict(state["teacher"])
        torch.set_rng_state(state["random"])
        if state["cuda"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"], self.device)
        self.draws.set_state(state["draws"])


def learning_rate(step: int, train: TrainSection) -> float:
    """Linear warm-up, then half a cosine down to zero."""
    if step < train.warmup:
        return (step + 1) / train.warmup
    done = (step - train.warmup) / max(1, train.steps - train.warmup)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def make_optimizer(model: nn.Module, train: TrainSection) -> torch.optim.Optimizer:
    make = torch.optim.AdamW if train.optimizer == "adamw" else torch.optim.Adam
    return make(parameter_groups(model, train), lr=train.rate, betas=train.betas, eps=train.eps)


def parameter_groups(model: nn.Module, train: TrainSection) -> list[dict[str, object]]:
    """Weight decay is for matrices; gains, biases, positions and scalars have none."""
    matrices = [p for n, p in model.named_parameters() if p.ndim >= 2 and "positions" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim < 2 or "positions" in n]
    return [{"params": matrices, "weight_decay": train.weight_decay}, {"params": others, "weight_decay": 0.0}]
