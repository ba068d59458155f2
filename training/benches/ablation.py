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
from jaxtyping import Float64, UInt8

from multifold.manifest import Entry
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
    parser.add_argument("--runs", nargs="+", metavar="RUN", help="only these of the studies' runs")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="instead of the recipe's")
    parser.add_argument("--out", type=Path, default=Path("runs/ablation"), help="folder of the results")
    parser.add_argument(
        "--sets",
        nargs="+",
        type=int,
        action="append",
        help="furniture sets to ask about together, by seed, default: 0; given again: another gallery",
    )
    parser.add_argument("--against", metavar="RUN", help="show each run's lead over this one, pair by pair")
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
        print(table(study, [r for r in found if r.study == study and r.seed in args.seeds], args.against))
    return 0


def _missing(args: argparse.Namespace, found: Sequence[Result]) -> list[tuple[str, str, int]]:
    """Study, name and seed of the runs that are asked for and not made yet, seed by seed."""
    there = {(result.study, result.name, result.seed) for result in found}
    asked = ((study, name, seed) for seed in args.seeds for study in args.study for name in studies()[study])
    return [one for one in asked if one not in there and (args.runs is None or one[1] in args.runs)]


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
    hits = test(path, recipe, args.sets or [[0]], args.cache)
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


def test(
    path: Path, recipe: Recipe, galleries: Sequence[Sequence[int]], cache: Path
) -> dict[str, dict[str, list[float]]]:
    """Each test item's share of hits, in all directions; a gallery is the test items of its sets."""
    trained = checkpoint.load(path)
    encoder = LiveEncoder(trained.model, prepare.reader(recipe, trained.tokenizer))
    hits: dict[str, dict[str, list[float]]] = {}
    for sets in galleries:
        unseen = [_held_out(recipe, seed, cache) for seed in sets]
        items = [item for found, _ in unseen for item in found]
        views = np.concatenate([seen for _, seen in unseen])
        asked = directions(encoder, encode(encoder, views, [entry.texts for entry in items]))
        for name, direction in asked.items():
            found = ranks(direction.scores, direction.relevant)
            counts = np.bincount(direction.items)
            for k in CUTS:
                shares = np.bincount(direction.items, recall_at_k(found, k)) / counts
                hits.setdefault(name, {}).setdefault(f"R@{k}", []).extend(shares.round(4).tolist())
    return hits


def _held_out(recipe: Recipe, seed: int, cache: Path) -> tuple[list[Entry], UInt8[np.ndarray, "i v h w 3"]]:
    data = recipe.data.model_copy(update={"furniture_seed": seed})
    other = recipe.model_copy(update={"data": data})
    return prepare.held_out(other, cache, data.test_split, data.test_items)


def results(log: Path) -> list[Result]:
    """What has been measured so far."""
    if not log.exists():
        return []
    return [Result(**json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]


def table(study: str, found: Sequence[Result], against: str | None = None) -> str:
    """Markdown: each run's recalls in percent, or its lead, with 95 % intervals over seeds and items."""
    columns = [
        (direction, cut) for direction in ("text_to_shape", "shape_to_text", "text_to_image") for cut in CUTS
    ]
    names = [f"{direction.replace('_', ' ').replace('to', '→')} R@{cut}" for direction, cut in columns]
    lines = [f"\n### {study}\n", f"| run | seeds | {' | '.join(names)} | images | CPU s |"]
    lines.append("|---" * (len(columns) + 4) + "|")
    for name in studies()[study]:
        pairs = _pairs(found, name, against)
        if pairs:
            shown = [_interval(_hits(pairs, *column)) for column in columns]
            mine = [run for run, _ in pairs]
            cost = f"{mine[0].images:,} | {np.mean([run.cpu_seconds for run in mine]):.0f}"
            lines.append(f"| {name} | {len(mine)} | {' | '.join(shown)} | {cost} |")
    return "\n".join(lines)


def _pairs(found: Sequence[Result], name: str, against: str | None) -> list[tuple[Result, Result | None]]:
    """Each run of a name, beside the run of the same seed that it is held against."""
    others = {run.seed: run for run in found if run.name == against}
    mine = [run for run in found if run.name == name and name != against]
    return [(run, others.get(run.seed)) for run in mine if against is None or run.seed in others]


def _hits(
    pairs: Sequence[tuple[Result, Result | None]], direction: str, cut: int
) -> Float64[np.ndarray, "s i"]:
    """Hits by seed and item; less those of the other run, where there is one."""
    mine = [run.hits[direction][f"R@{cut}"] for run, _ in pairs]
    others = [other.hits[direction][f"R@{cut}"] if other else [0.0] for _, other in pairs]
    return np.subtract(mine, others, dtype=np.float64)


def _interval(hits: Float64[np.ndarray, "s i"]) -> str:
    means = np.concatenate(list(_draws(hits)))
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{100 * np.mean(hits):.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def _draws(hits: Float64[np.ndarray, "s i"]) -> Iterator[Float64[np.ndarray, " _"]]:
    rng = np.random.default_rng(0)
    for _ in range(SAMPLES // 100):
        seeds = rng.integers(len(hits), size=(100, len(hits)))
        items = rng.integers(hits.shape[1], size=(100, hits.shape[1]))
        yield hits[seeds[:, :, None], items[:, None, :]].mean((1, 2))
