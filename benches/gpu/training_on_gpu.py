"""Steps of recipes on either device: items a second, and where the time goes."""

import argparse
import time
from collections.abc import Iterator

import torch

from benches.learning.loop_times import SENTENCE, noise_items
from benches.reporting import head, row
from training import loop, towers
from training.recipes import library
from training.recipes.schema import Recipe
from training.run import TrainingRun

WARM = 3


def measure(args: argparse.Namespace) -> Iterator[str]:
    """A table of all recipes."""
    yield head("recipe", "device", "items a step", "a step", "items/s", "making batches", "memory of the GPU")
    for name in args.recipes:
        recipe = without_weights(name)
        for device in ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",):
            yield measure_recipe(recipe, torch.device(device), args)


def without_weights(name: str) -> Recipe:
    """The recipe, beginning by chance."""
    recipe = library.load_recipe(name)
    for side in ("image", "text"):
        if getattr(getattr(recipe, side), "pretrained", None):
            tower = getattr(recipe, side).model_copy(update={"pretrained": None})
            recipe = recipe.model_copy(update={side: tower})
    return recipe


def measure_recipe(recipe: Recipe, device: torch.device, args: argparse.Namespace) -> str:
    """A row of the table."""
    on_gpu = device.type == "cuda"
    tokens = towers.tokenizer_for(recipe.text, [SENTENCE])
    run = TrainingRun(recipe, noise_items(recipe), tokens, device)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    making, whole = 0.0, 0.0
    steps = args.steps if on_gpu else args.cpu_steps
    warm = WARM if on_gpu else 1
    for turn in range(warm + steps):
        begun = time.perf_counter()
        batch = next(run.batches)
        made = time.perf_counter()
        run.step += 1
        loop.step(run, batch)
        if turn >= warm:
            making += made - begun
            whole += time.perf_counter() - begun
    items, seconds = recipe.train.items, whole / steps
    memory = f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB" if on_gpu else ""
    share = f"{making / whole:.0%}"
    return row(recipe.name, device.type, items, f"{seconds:.3f} s", f"{items / seconds:.1f}", share, memory)
