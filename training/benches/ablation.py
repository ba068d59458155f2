"""Losses and geometries against each other on the furniture set.

    multifold bench ablation --study losses --seeds 0 1 2

Every run trains the small model of training/recipes/ablation.toml with the changes that ablation.toml beside
this file names, and is tested on the same unseen items. Runs that are already in --out are not made again.
The table's intervals draw both seeds and items; the time is CPU time, of training alone.
"""

import argparse
import hashlib
import json
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float64

from multifold.metrics import ranks, recall_at_k
from training import checkpoint, loop, prepare, start
from training.cookbook import merged
from training.evaluate.live import LiveEncoder
from training.evaluate.retrieval import directions, encode
from training.recipe import Recipe, parse

RECIPE = Path(__file__).parents[1] / "recipes" / "ablation.toml"
STUDIES = Path(__file__).with_name("ablation.toml")
AFTER = "after"  # in place of a section: the changes of the run that this one goes on from
CUTS = (1, 10)
SAMPLES = 4000

Changes: TypeAlias = Mapping[str, Mapping[str, Any]]  # section of the recipe -> what is different there


@dataclass(frozen=True)
class Result:
    """One run: what it cost, and for each test item the share of its queries that hit."""

    study: str
    name: str
    seed: int
    steps: int
    images: int
    cpu_seconds: float
    hits: Mapping[str, Mapping[str, list[float]]]  # direction -> "R@k" -> one number an item


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--study", nargs="+", choices=sorted(studies()), default=sorted(studies()))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="instead of the recipe's")
    parser.add_argument("--out", type=Path, default=Path("runs/ablation"), help="folder of the results")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")
    parser.add_argument("--table", action="store_true", help="print what is there, and run nothing")


def run(args: argparse.Namespace) -> int:
    """Make the runs that are missing, then print a table of each study."""
    args.out.mkdir(parents=True, exist_ok=True)
    log = args.out / "results.jsonl"
    found = results(log)
    for study, name, seed in () if args.table else _missing(args, found):
        print(f"{study}, seed {seed}: {name}", flush=True)
        found.append(measure(study, name, studies()[study][name], seed, args))
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(found[-1])) + "\n")
    for study in args.study:
        print(table(study, [r for r in found if r.study == study and r.seed in args.seeds]))
    return 0


def _missing(args: argparse.Namespace, found: Sequence[Result]) -> list[tuple[str, str, int]]:
    """Study, name and seed of the runs that are asked for and not made yet, seed by seed."""
    there = {(result.study, result.name, result.seed) for result in found}
    asked = ((study, name, seed) for seed in args.seeds for study in args.study for name in studies()[study])
    return [one for one in asked if one not in there]


def studies() -> dict[str, dict[str, dict[str, Any]]]:
    """Study -> name of a run -> what it changes in the recipe."""
    return tomllib.loads(STUDIES.read_text(encoding="utf-8"))


def changed(changes: Changes, seed: int, steps: int | None) -> Recipe:
    """The small recipe with a run's changes; `after` is none of them."""
    raw = tomllib.loads(RECIPE.read_text(encoding="utf-8"))
    raw = merged(raw, {section: values for section, values in changes.items() if section != AFTER})
    run = {"seed": seed} | ({} if steps is None else {"steps": steps})
    return parse(merged(raw, {"train": run}), str(STUDIES))


def measure(study: str, name: str, changes: Changes, seed: int, args: argparse.Namespace) -> Result:
    """Train and test once; what the run goes on from is trained before, and not counted."""
    if AFTER in changes:
        before = base(changes[AFTER], seed, args)
        changes = merged(changes, {"train": {"start": str(before)}})
    recipe = changed(changes, seed, args.steps)
    path, spent, images = _train(recipe, args.out, args.cache)
    hits = test(path, recipe, args.cache)
    return Result(study, name, seed, recipe.train.steps, images, round(spent, 1), hits)


def base(changes: Changes, seed: int, args: argparse.Namespace) -> Path:
    """The checkpoint that a run goes on from, trained if it is not there; runs of one seed share it."""
    recipe = changed(changes, seed, args.steps)
    folder: Path = args.out / f"base-{hashlib.sha256(recipe.model_dump_json().encode()).hexdigest()[:12]}"
    path = folder / "checkpoint.pt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _train(recipe, folder, args.cache)
    return path


def _train(recipe: Recipe, out: Path, cache: Path) -> tuple[Path, float, int]:
    """The checkpoint, the CPU seconds of training, and the images seen."""
    items = prepare.entries(recipe, cache, recipe.data.train_split)
    tokenizer = start.tokenizer(recipe, (text for entry in items for text in entry.texts))
    groups = prepare.groups(recipe, items, tokenizer, cache)
    started = time.process_time()
    path = loop.train(recipe, groups, tokenizer, out)
    views = recipe.train.views or groups.pixels.shape[1]
    return path, time.process_time() - started, recipe.train.steps * recipe.train.items * views


def test(path: Path, recipe: Recipe, cache: Path) -> dict[str, dict[str, list[float]]]:
    """Each test item's share of hits, in all directions."""
    trained = checkpoint.load(path)
    items, views = prepare.held_out(recipe, cache, recipe.data.test_split, recipe.data.test_items)
    encoder = LiveEncoder(trained.model, prepare.reader(recipe, trained.tokenizer))
    asked = directions(encoder, encode(encoder, np.asarray(views), [entry.texts for entry in items]))
    hits: dict[str, dict[str, list[float]]] = {}
    for name, direction in asked.items():
        found = ranks(direction.scores, direction.relevant)
        counts = np.bincount(direction.items)
        shares = {k: np.bincount(direction.items, recall_at_k(found, k)) / counts for k in CUTS}
        hits[name] = {f"R@{k}": share.round(4).tolist() for k, share in shares.items()}
    return hits


def results(log: Path) -> list[Result]:
    """What has been measured so far."""
    if not log.exists():
        return []
    return [Result(**json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]


def table(study: str, found: Sequence[Result]) -> str:
    """Markdown: each run's recalls in percent with 95 % intervals over seeds and items."""
    columns = [
        (direction, cut) for direction in ("text_to_shape", "shape_to_text", "text_to_image") for cut in CUTS
    ]
    names = [f"{direction.replace('_', ' ').replace('to', '→')} R@{cut}" for direction, cut in columns]
    lines = [f"\n### {study}\n", f"| run | seeds | {' | '.join(names)} | images | CPU s |"]
    lines.append("|---" * (len(columns) + 4) + "|")
    for name in studies()[study]:
        mine = [result for result in found if result.name == name]
        if mine:
            shown = [_interval([r.hits[direction][f"R@{cut}"] for r in mine]) for direction, cut in columns]
            cost = f"{mine[0].images:,} | {np.mean([r.cpu_seconds for r in mine]):.0f}"
            lines.append(f"| {name} | {len(mine)} | {' | '.join(shown)} | {cost} |")
    return "\n".join(lines)


def _interval(hits: Sequence[Sequence[float]]) -> str:
    means = np.concatenate(list(_draws(np.array(hits))))
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{100 * np.mean(hits):.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def _draws(hits: Float64[np.ndarray, "s i"]) -> Iterator[Float64[np.ndarray, " _"]]:
    rng = np.random.default_rng(0)
    for _ in range(SAMPLES // 100):
        seeds = rng.integers(len(hits), size=(100, len(hits)))
        items = rng.integers(hits.shape[1], size=(100, hits.shape[1]))
        yield hits[seeds[:, :, None], items[:, None, :]].mean((1, 2))
