"""Trainings of `multifold bench shapes`, what each finds, and the tables."""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64

from benches.reporting import head, row
from benches.shapes.shapes import WAYS
from benches.shapes.worlds import ShapeWorld, make_world
from multifold.manifest import ManifestEntry
from multifold.metrics import bootstrap, ranks, recall_at_k
from multifold.scores import similarities
from training import checkpoint, loop, prepare, towers
from training.batches import TrainingItems
from training.recipes.library import load_recipe
from training.recipes.schema import Recipe
from training.retrieval.encoder import TorchEncoder
from training.run import TrainingRun
from training.towers.tokenizers import TrainedTokenizer

TRIED = 4  # steps by which the time of one is measured, after a first one
SPREAD = 1e-9
TASKS = ("text → shape", "text that names what few sides show", "text → turned shape", "turned → shape")
CHANGES: Mapping[str, Sequence[str]] = {
    "views, mean": (),
    "views, set encoder": ("together.blocks=2",),
    "views, last block": ("together.last=1",),
    "points": ("loss.text_image=0", "loss.agg_image=0", "loss.text_points=1", "train.augment.spin=180"),
    "views + points": ("loss.text_points=1", "loss.image_points=0.5", "train.augment.spin=180"),
}
COMMON = (
    "loss.text_image=0.5",
    "loss.agg_image=1",
    "loss.text_points=0",
    "loss.image_points=0",
    *("train.items=64", "train.views=3", "train.captions=2"),
)


@dataclass(frozen=True)
class ShapesRun:
    """What one training has cost, and for each task whether each query has found its item first."""

    world: str
    way: str
    seed: int
    steps: int
    cpu_seconds: float
    hits: Mapping[str, Mapping[str, list[float]]]  # task -> "R@k" -> one number a query
    items: Mapping[str, list[int]]  # task -> the item of each query


def run(args: argparse.Namespace) -> int:
    """Make the missing runs, seed by seed, then print the tables."""
    args.out.mkdir(parents=True, exist_ok=True)
    log: Path = args.out / "results.jsonl"
    results = _read(log)
    done = {(one.world, one.way, one.seed) for one in results}
    wanted = [(seed, world, way) for seed in args.seeds for world in args.worlds for way in args.ways]
    world_of = cache(lambda name: make_world(name, args.items, args.cache))
    for seed, world, way in () if args.table else wanted:
        if (world, way, seed) in done:
            continue
        print(f"{world}, {way}, seed {seed}", flush=True)
        results.append(measure(world_of(world), world, way, seed, args))
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(results[-1])) + "\n")
    for world in args.worlds:
        print(shapes_table(world, [one for one in results if one.world == world and one.seed in args.seeds]))
    return 0


def _read(log: Path) -> list[ShapesRun]:
    if not log.exists():
        return []
    return [ShapesRun(**json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]


def way_recipe(way: str, seed: int, steps: int) -> Recipe:
    """The recipe `points` with what a way changes of it."""
    changes = [*COMMON, *CHANGES[way], f"train.seed={seed}", f"train.steps={steps}"]
    recipe = load_recipe("points", [*changes, f"train.warmup={max(1, steps // 10)}"])
    return recipe if recipe.loss.text_points else recipe.model_copy(update={"points": None})


def measure(world: ShapeWorld, name: str, way: str, seed: int, args: argparse.Namespace) -> ShapesRun:
    """Train one way for its time, and ask."""
    recipe = way_recipe(way, seed, 1)
    texts = [text for entry in world.train for text in entry.texts]
    tokenizer = towers.tokenizer_for(recipe.text, texts)
    groups = prepare.groups(recipe, world.train, tokenizer, args.cache)
    per_step = seconds_per_step(recipe, groups, tokenizer)
    recipe = way_recipe(way, seed, max(2, round(args.seconds / per_step)))
    started = time.process_time()
    trained = checkpoint.load_checkpoint(loop.train(recipe, groups, tokenizer, args.out))
    spent = time.process_time() - started
    encoder = TorchEncoder(trained.model, prepare.reader(recipe, tokenizer))
    hits, items = ask(encoder, recipe, world, args.cache)
    return ShapesRun(name, way, seed, recipe.train.steps, round(spent, 1), hits, items)


def seconds_per_step(recipe: Recipe, groups: TrainingItems, tokenizer: TrainedTokenizer) -> float:
    """Processor time of a step of this recipe."""
    trial = TrainingRun(recipe, groups, tokenizer, torch.device("cpu"))
    loop.step(trial, next(trial.batches))
    started = time.process_time()
    for _ in range(TRIED):
        loop.step(trial, next(trial.batches))
    return (time.process_time() - started) / TRIED


def ask(
    encoder: TorchEncoder, recipe: Recipe, world: ShapeWorld, cache_folder: Path
) -> tuple[dict[str, dict[str, list[float]]], dict[str, list[int]]]:
    """Hits of every query of every task, and the queries' items."""
    captions = [text for entry in world.held_out for text in entry.texts]
    texts = encoder.texts(captions).features
    places = np.arange(len(world.held_out))
    owners = np.repeat(places, [len(entry.texts) for entry in world.held_out])
    shapes, turned = (legs(encoder, recipe, some, cache_folder) for some in (world.held_out, world.turned))
    asked = [texts] * len(shapes)
    queries: dict[str, tuple[Float32[np.ndarray, "q g"], Int64[np.ndarray, " q"]]] = {
        TASKS[0]: (summed_scores(encoder, asked, shapes), owners),
        TASKS[2]: (summed_scores(encoder, asked, turned), owners),
        TASKS[3]: (summed_scores(encoder, turned, shapes), places),
    }
    scores = queries[TASKS[0]][0]
    queries[TASKS[1]] = scores[world.hidden], owners[world.hidden]
    hits, items = {}, {}
    for task in TASKS:
        some, of = queries[task]
        relevant: Bool[np.ndarray, "q g"] = of[:, None] == places[None]
        found = ranks(some, relevant)
        hits[task] = {f"R@{k}": recall_at_k(found, k).tolist() for k in (1, 10)}
        items[task] = of.tolist()
    return hits, items


def legs(
    encoder: TorchEncoder, recipe: Recipe, entries: Sequence[ManifestEntry], cache_folder: Path
) -> list[Float32[np.ndarray, "i n"]]:
    """The features of items in each way that the recipe has: by views, by points."""
    found = []
    if recipe.loss.sees:
        views = np.asarray(prepare.views(recipe, entries, cache_folder))
        found.append(encoder.shapes(views))
    if recipe.points is not None:
        found.append(encoder.points(prepare.points(recipe, entries, cache_folder)))
    return found


def summed_scores(
    encoder: TorchEncoder,
    queries: Sequence[Float32[np.ndarray, "q n"]],
    gallery: Sequence[Float32[np.ndarray, "g n"]],
) -> Float32[np.ndarray, "q g"]:
    """The scores of all legs, each standardised over the gallery, added up."""
    total: Any = 0.0
    for asked, there in zip(queries, gallery, strict=True):
        scores = similarities(encoder, encoder.vectors(asked), encoder.vectors(there))
        spread = scores.std(axis=1, keepdims=True) + SPREAD
        total = total + (scores - scores.mean(axis=1, keepdims=True)) / spread
    return np.asarray(total, np.float32)


def shapes_table(world: str, runs: Sequence[ShapesRun]) -> str:
    """Recall of each way in percent, and its lead over the mean of the views, with 95 % intervals."""
    lines = [f"\n### {world}\n", head("way", "seeds", "steps", "CPU s", *(f"{task}, R@1" for task in TASKS))]
    for way in WAYS:
        ours = [one for one in runs if one.way == way]
        if ours:
            steps, cost = (np.mean([getattr(one, name) for one in ours]) for name in ("steps", "cpu_seconds"))
            cells = [_cell(runs, ours, task) for task in TASKS]
            lines.append(row(way, len(ours), round(float(steps)), f"{cost:.0f}", *cells))
    return "\n".join(lines)


def _cell(runs: Sequence[ShapesRun], ours: Sequence[ShapesRun], task: str) -> str:
    hits = np.concatenate([one.hits[task]["R@1"] for one in ours])
    first = {one.seed: one for one in runs if one.way == WAYS[0]}
    pairs = [(one, first[one.seed]) for one in ours if one.seed in first and one.way != WAYS[0]]
    if not pairs:
        return f"{100 * hits.mean():.1f}"
    leads = np.concatenate([np.subtract(one.hits[task]["R@1"], two.hits[task]["R@1"]) for one, two in pairs])
    low, high = bootstrap(leads, groups=np.concatenate([one.items[task] for one, _ in pairs]))
    return f"{100 * hits.mean():.1f} ({100 * leads.mean():+.1f} [{100 * low:+.1f}, {100 * high:+.1f}])"
