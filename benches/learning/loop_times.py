"""The steps of the training loop and of a bare one, timed in turns."""

import argparse
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benches.reporting import head, row
from training import loop, prepare, towers
from training.batches import TrainingItems
from training.recipes import library
from training.recipes.schema import Recipe
from training.run import TrainingRun
from training.run_log import RunLog

RECIPES = ("folder-small", "demo", "ablation")
SENTENCE = "a small round table of dark wood with four thin legs and a shelf below made for two"
BATCHES = 8


def run(args: argparse.Namespace) -> int:
    torch.set_num_threads(1)
    print(head("recipe", "items a step", "bare, items/s", "the loop, items/s", "share"))
    for name in RECIPES:
        recipe = library.load_recipe(name)
        (bare, ours), items = compare_loops(recipe, args.rounds, args.steps), recipe.train.items
        print(
            row(name, items, f"{items / bare:.1f}", f"{items / ours:.1f}", f"{bare / ours:.3f}"), flush=True
        )
    return 0


def compare_loops(recipe: Recipe, rounds: int, steps: int) -> tuple[float, float]:
    """Median processor seconds of a step: of the bare loop, and of ours."""
    tokens = towers.tokenizer_for(recipe.text, [SENTENCE])
    under_way = TrainingRun(recipe, noise_items(recipe), tokens, torch.device("cpu"))
    with tempfile.TemporaryDirectory() as folder, RunLog(Path(folder), under_way) as journal:
        batches = cycle([next(under_way.batches).on(under_way.device) for _ in range(BATCHES)])

        def bare_step() -> None:
            under_way.optimizer.zero_grad()
            under_way.objective(under_way.model, next(batches), 0.5).backward()
            under_way.optimizer.step()

        def our_step() -> None:
            batch = next(under_way.batches)
            under_way.step += 1
            journal.step(under_way, loop.step(under_way, batch))

        turns = bare_step, our_step
        for turn in turns:
            turn()
        seconds = [[time_steps(turn, steps) for turn in turns] for _ in range(rounds)]
    bare, ours = map(median, zip(*seconds, strict=True))
    return bare, ours


def noise_items(recipe: Recipe) -> TrainingItems:
    """Twice as many items as a step takes, with views of noise and captions of up to all words."""
    rng, size = np.random.default_rng(0), prepare.image_spec(recipe).size
    count, captions = 2 * recipe.train.items, 5
    words = SENTENCE.split()
    texts = [" ".join(rng.permutation(words)[: rng.integers(5, len(words))]) for _ in range(count * captions)]
    reader = prepare.reader(recipe, towers.tokenizer_for(recipe.text, [SENTENCE]))
    rows = [(captions * item, captions * (item + 1)) for item in range(count)]
    pixels = rng.integers(0, 256, (count, 6, size, size, 3), dtype=np.uint8)
    return TrainingItems(pixels, reader(texts).ids, rows)


def time_steps(turn: Callable[[], None], steps: int) -> float:
    """Processor seconds of one call."""
    begin = time.process_time()
    for _ in range(steps):
        turn()
    return (time.process_time() - begin) / steps
