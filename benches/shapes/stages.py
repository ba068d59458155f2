"""Trainings of `multifold bench shapes`: each way has stages, which share its processor time."""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benches.shapes.worlds import ShapeWorld
from training import checkpoint, loop, prepare
from training.batches import TrainingItems
from training.checkpoint import Checkpoint
from training.recipes.library import load_recipe
from training.recipes.schema import Recipe
from training.run import TrainingRun
from training.towers.tokenizers import TrainedTokenizer

TRIED = 20  # steps by which the time of one is measured, after a first one


@dataclass(frozen=True)
class Stage:
    """A part of a training: its share of the time, and what it changes of the recipe `points`."""

    share: float
    changes: Sequence[str]


COMMON = ("train.items=64", "train.views=2", "train.captions=2", "train.augment.spin=180")
NOT_POINTS = ("loss.text_points=0", "loss.image_points=0")
VIEWS = ("loss.text_image=0.5", "loss.agg_image=1", *NOT_POINTS)
POINTS = ("loss.text_image=0", "loss.image_points=0", "loss.text_points=1")
BOTH = ("loss.text_image=0.5", "loss.agg_image=1", "loss.text_points=1", "loss.image_points=0")
STAGES: Mapping[str, Sequence[Stage]] = {
    "views": [Stage(1.0, VIEWS)],
    "points": [Stage(1.0, POINTS)],
    "views + points": [Stage(1.0, BOTH)],
}


@dataclass(frozen=True)
class TrainedWay:
    """What the stages have made, and their processor time under the load of that moment."""

    model: Checkpoint
    cpu_seconds: float


@dataclass(frozen=True)
class PreparedStage:
    """All that a stage learns from."""

    recipe: Recipe
    groups: TrainingItems
    tokenizer: TrainedTokenizer

    def train(self, folder: Path) -> Path:
        """The checkpoint of the stage."""
        folder.mkdir(parents=True, exist_ok=True)
        return loop.train(self.recipe, self.groups, self.tokenizer, folder)

    def costs(self) -> tuple[float, float]:
        """Processor time before the first step, and of a step."""
        started = time.process_time()
        trial = TrainingRun(self.recipe, self.groups, self.tokenizer, torch.device("cpu"))
        setup = time.process_time() - started
        loop.step(trial, next(trial.batches))
        started = time.process_time()
        for _ in range(TRIED):
            loop.step(trial, next(trial.batches))
        return setup, (time.process_time() - started) / TRIED


def train_way(
    world: ShapeWorld, stages: Sequence[Stage], steps: Sequence[int], seed: int, args: argparse.Namespace
) -> TrainedWay:
    """All stages, one after the other, each from the weights of the one before."""
    start, spent = None, 0.0
    for number, (stage, count) in enumerate(zip(stages, steps, strict=True)):
        prepared = prepare_stage(world, stage_recipe(stage.changes, seed, count, start), args.cache)
        started = time.process_time()
        start = prepared.train(args.out / f"stage-{number}")
        spent += time.process_time() - started
    assert start is not None
    return TrainedWay(checkpoint.load_checkpoint(start), round(spent, 1))


def steps_within(
    seconds: float, world: ShapeWorld, stages: Sequence[Stage], args: argparse.Namespace
) -> list[int]:
    """How many steps of each stage its share of so many seconds of processor time allows."""
    start, steps = None, list[int]()
    for number, stage in enumerate(stages):
        prepared = prepare_stage(world, stage_recipe(stage.changes, 0, 2, start), args.cache)
        setup, step = prepared.costs()
        steps.append(max(2, round((seconds * stage.share - setup) / step)))
        start = prepared.train(args.out / f"stage-{number}")
    return steps


def prepare_stage(world: ShapeWorld, recipe: Recipe, cache: Path) -> PreparedStage:
    texts = [text for entry in world.train for text in entry.texts]
    tokenizer = checkpoint.starting_tokenizer(recipe, texts)
    return PreparedStage(recipe, prepare.groups(recipe, world.train, tokenizer, cache), tokenizer)


def stage_recipe(changes: Sequence[str], seed: int, steps: int, start: Path | None = None) -> Recipe:
    """The recipe `points` with what a stage changes of it."""
    fixed = [f"train.seed={seed}", f"train.steps={steps}", f"train.warmup={max(1, steps // 10)}"]
    begin = [] if start is None else [f"train.start={start}"]
    recipe = load_recipe("points", [*COMMON, *changes, *fixed, *begin])
    return recipe if recipe.loss.text_points else recipe.model_copy(update={"points": None})
