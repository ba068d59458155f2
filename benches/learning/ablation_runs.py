"""Runs of the ablation: each is trained, tested and told in a table."""

import argparse
import hashlib
import json
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import UInt8

import training.recipes
from benches.learning import timed_runs
from benches.learning.ablation import STUDIES, TIMED, studies
from benches.reporting import head, row
from multifold.manifest import ManifestEntry
from training import checkpoint, loop, prepare
from training.evaluate.ablation import AblationRun, ablation_rows, item_hits, read_runs
from training.recipes.library import merge
from training.recipes.schema import Recipe, parse_recipe
from training.retrieval.encoder import TorchEncoder

RECIPE = Path(training.recipes.__file__).parent / "ablation.toml"
AFTER = "after"  # in place of a section: the changes of the run that this one goes on from

Changes: TypeAlias = Mapping[str, Mapping[str, Any]]  # section of the recipe -> what is different there


def run(args: argparse.Namespace) -> int:
    """Make the missing runs, then print a table of each study."""
    for study in TIMED:
        if study in args.study:
            timed_runs.run(study, args)
    args.study = [study for study in args.study if study not in TIMED]
    args.seeds = args.seeds or [0, 1, 2]
    args.out.mkdir(parents=True, exist_ok=True)
    log = args.out / "results.jsonl"
    results = read_runs(log)
    for study, name, seed in () if args.table else _missing(args, results):
        print(f"{study}, seed {seed}: {name}", flush=True)
        results.append(measure(study, name, studies()[study][name], seed, args))
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(results[-1])) + "\n")
    for study in args.study:
        runs = [run for run in results if run.study == study and run.seed in args.seeds]
        print(ablation_table(study, runs, args.against))
    return 0


def _missing(args: argparse.Namespace, results: Sequence[AblationRun]) -> list[tuple[str, str, int]]:
    """Study, name and seed of the missing runs, seed by seed."""
    done = {(result.study, result.name, result.seed) for result in results}
    keys = ((study, name, seed) for seed in args.seeds for study in args.study for name in studies()[study])
    return [key for key in keys if key not in done and (args.runs is None or key[1] in args.runs)]


def changed_recipe(changes: Changes, seed: int, steps: int | None) -> Recipe:
    """The small recipe with a run's changes; `after` is none of them."""
    raw = tomllib.loads(RECIPE.read_text(encoding="utf-8"))
    raw = merge(raw, {section: values for section, values in changes.items() if section != AFTER})
    run = {"seed": seed} | ({} if steps is None else {"steps": steps})
    return parse_recipe(merge(raw, {"train": run}), str(STUDIES))


def measure(study: str, name: str, changes: Changes, seed: int, args: argparse.Namespace) -> AblationRun:
    """Train and test once; the run that it continues is trained before, and not counted."""
    if AFTER in changes:
        before = train_base(changes[AFTER], seed, args)
        changes = merge(changes, {"train": {"start": str(before)}})
    recipe = changed_recipe(changes, seed, args.steps)
    path, spent, images = _train(recipe, args.out, args.cache)
    hits = test_checkpoint(path, recipe, args.sets or [[0]], args.cache)
    return AblationRun(study, name, seed, recipe.train.steps, images, round(spent, 1), hits)


def train_base(changes: Changes, seed: int, args: argparse.Namespace) -> Path:
    """The checkpoint that a run continues, trained if missing; runs of one seed share it."""
    recipe = changed_recipe(changes, seed, args.steps)
    folder: Path = args.out / f"base-{hashlib.sha256(recipe.model_dump_json().encode()).hexdigest()[:12]}"
    path = folder / "checkpoint.pt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _train(recipe, folder, args.cache)
    return path


def _train(recipe: Recipe, out: Path, cache: Path) -> tuple[Path, float, int]:
    """The checkpoint, the CPU seconds of training, and the images seen."""
    items = prepare.entries(recipe, cache, recipe.data.train_split)
    tokenizer = checkpoint.starting_tokenizer(recipe, (text for entry in items for text in entry.texts))
    groups = prepare.groups(recipe, items, tokenizer, cache)
    started = time.process_time()
    path = loop.train(recipe, groups, tokenizer, out)
    views = recipe.train.views or groups.pixels.shape[1]
    return path, time.process_time() - started, recipe.train.steps * recipe.train.items * views


def test_checkpoint(
    path: Path, recipe: Recipe, galleries: Sequence[Sequence[int]], cache: Path
) -> dict[str, dict[str, list[float]]]:
    """Each test item's share of hits, in all directions; a gallery is the test items of its sets."""
    trained = checkpoint.load_checkpoint(path)
    encoder = TorchEncoder(trained.model, prepare.reader(recipe, trained.tokenizer))
    hits: dict[str, dict[str, list[float]]] = {}
    for sets in galleries:
        held_out = [_held_out(recipe, seed, cache) for seed in sets]
        captions = [entry.texts for entries, _ in held_out for entry in entries]
        views = np.concatenate([pictures for _, pictures in held_out])
        for name, columns in item_hits(encoder, views, captions).items():
            for column, shares in columns.items():
                hits.setdefault(name, {}).setdefault(column, []).extend(shares)
    return hits


def _held_out(
    recipe: Recipe, seed: int, cache: Path
) -> tuple[list[ManifestEntry], UInt8[np.ndarray, "i v h w 3"]]:
    data = recipe.data.model_copy(update={"furniture_seed": seed})
    other = recipe.model_copy(update={"data": data})
    return prepare.held_out(other, cache, data.test_split, data.test_items)


def ablation_table(study: str, runs: Sequence[AblationRun], against: str | None = None) -> str:
    """Markdown: each run's recalls in percent, or its lead, with 95 % intervals over seeds and items."""
    columns, rows = ablation_rows(runs, studies()[study], against)
    return "\n".join([f"\n### {study}\n", head(*columns), *(row(*cells) for cells in rows)])
