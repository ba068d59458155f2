"""Steps of recipes on batches of noise: of the training loop, of a bare one, and on a device."""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
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

SENTENCE = "a small round table of dark wood with four thin legs and a shelf below made for two"
BATCHES = 8
WARM = 3  # steps on a GPU before those that count


def compare_loops(args: argparse.Namespace) -> Iterator[str]:
    """A table of all recipes, beside a bare loop, on one thread."""
    torch.set_num_threads(1)
    yield head("recipe", "items a step", "bare, items/s", "the loop, items/s", "share")
    for name in args.recipes:
        recipe = without_weights(name)
        bare, ours = time_loops(recipe, args.rounds, args.steps)
        items = recipe.train.items
        yield row(name, items, f"{items / bare:.1f}", f"{items / ours:.1f}", f"{bare / ours:.3f}")


def time_loops(recipe: Recipe, rounds: int, steps: int) -> tuple[float, float]:
    """Median processor seconds of a step: of the bare loop, and of ours."""
    run = noise_run(recipe, "cpu")
    with tempfile.TemporaryDirectory() as folder, RunLog(Path(folder), run) as log:
        batches = cycle([next(run.batches).on(run.device) for _ in range(BATCHES)])

        def bare_step() -> None:
            run.optimizer.zero_grad()
            run.objective(run.model, next(batches), 0.5).backward()
            run.optimizer.step()

        def our_step() -> None:
            batch = next(run.batches)
            run.step += 1
            log.step(run, loop.step(run, batch))

        turns = bare_step, our_step
        for turn in turns:
            turn()
        seconds = [[time_steps(turn, steps) for turn in turns] for _ in range(rounds)]
    bare, ours = map(median, zip(*seconds, strict=True))
    return bare, ours


def time_steps(turn: Callable[[], None], steps: int) -> float:
    """Processor seconds of one call."""
    begin = time.process_time()
    for _ in range(steps):
        turn()
    return (time.process_time() - begin) / steps


def measure_devices(args: argparse.Namespace) -> Iterator[str]:
    """A table of all recipes on each device."""
    yield head("recipe", "device", "items a step", "a step", "items/s", "making batches", "memory of the GPU")
    for name in args.recipes:
        for device in args.devices:
            yield measure_device(without_weights(name), device, args.steps)


def measure_device(recipe: Recipe, device: str, steps: int) -> str:
    """A row of the table."""
    on_gpu = device == "cuda"
    run = noise_run(recipe, device)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    making = both = 0.0
    warm = WARM if on_gpu else 1
    for turn in range(warm + steps):
        begun = time.perf_counter()
        batch = next(run.batches)
        made = time.perf_counter()
        run.step += 1
        loop.step(run, batch)
        if turn >= warm:
            making += made - begun
            both += time.perf_counter() - begun
    items = recipe.train.items
    seconds = both / steps
    memory = f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB" if on_gpu else ""
    rate = f"{items / seconds:.1f}"
    share = f"{making / both:.0%}"
    return row(recipe.name, device, items, f"{seconds:.3f} s", rate, share, memory)


def noise_run(recipe: Recipe, device: str) -> TrainingRun:
    tokens = towers.tokenizer_for(recipe.text, [SENTENCE])
    return TrainingRun(recipe, noise_items(recipe), tokens, torch.device(device))


def noise_items(recipe: Recipe) -> TrainingItems:
    """Twice as many items as a step takes, with views of noise and captions of up to all words."""
    rng = np.random.default_rng(0)
    size = towers.image_spec(recipe.image).size
    count = 2 * recipe.train.items
    captions = 5
    words = SENTENCE.split()
    texts = [" ".join(rng.permutation(words)[: rng.integers(5, len(words))]) for _ in range(count * captions)]
    reader = prepare.reader(recipe, towers.tokenizer_for(recipe.text, [SENTENCE]))
    rows = [(captions * item, captions * (item + 1)) for item in range(count)]
    pixels = rng.integers(0, 256, (count, 6, size, size, 3), dtype=np.uint8)
    return TrainingItems(pixels, reader(texts).ids, rows)


def without_weights(name: str) -> Recipe:
    """The recipe, whose towers begin by chance."""
    recipe = library.load_recipe(name)
    for side in ("image", "text"):
        if getattr(getattr(recipe, side), "pretrained", None):
            tower = getattr(recipe, side).model_copy(update={"pretrained": None})
            recipe = recipe.model_copy(update={side: tower})
    return recipe
