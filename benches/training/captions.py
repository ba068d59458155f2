"""All captions of an item against one of them, at equal processor time: worlds, arms and comparison.

docs/benchmarks/losses.md has the plan, which was written before the first run.
"""

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from statistics import mean, median
from typing import Any, TypeAlias

import torch

from benches.reporting import head, row
from multifold import manifest
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from multifold.metrics import half_width
from training import loop
from training.data.furniture.dataset import FurnitureOrder, write_furniture
from training.data.sources.imported import split_of
from training.distributed import SINGLE_PROCESS
from training.recipes import library
from training.recipes.schema import Recipe
from training.run import TrainingRun
from training.train import PreparedRun, RunPlace, prepare_run

Result: TypeAlias = dict[str, Any]  # a line of the results: world, arm, seed, rate, steps, seconds, recalls
Line: TypeAlias = dict[str, Any]  # of the data: a file with its text

RECIPE = "folder-small"
ONE = "one caption"
DEFAULT = "hard"  # the loss of the recipe
ARMS: Mapping[str, Sequence[str]] = {
    ONE: ("loss.name=infonce_mask", "train.captions=1"),
    "SupCon": ("loss.name=all_positives", "train.captions=0"),
    DEFAULT: ("loss.name=hard", "train.captions=0"),
    "MFH": ("loss.name=mfh", "train.captions=0"),
}
SEEDS = range(5)
RATES = (5e-4, 1e-3, 2e-3, 4e-3)
CHOOSING_SEED = 100
CHOOSING_SHARE = 2 / 3  # of the seconds of a run, those of a run that chooses a rate
TURNS, STEPS_OF_A_TURN = 6, 10  # that the seconds of a step are measured in
PIECES = {"furniture": (61, 2000), "other furniture": (62, 1000)}  # seed, items
SHARES = (75, 0, 25)  # of kits and emoji, to learn from and to search
COLUMNS = tuple(f"{way}/R@{cut}" for way in ("text_to_shape", "shape_to_text") for cut in (1, 5, 10))
MEASURE = "measure"  # what arms are compared by: the mean of R@1 and R@10 in both directions
TITLES = (MEASURE, *(f"{way} R@{cut}" for way in ("text → shape", "shape → text") for cut in (1, 5, 10)))
SHOWN_TWICE = "Platformer Kit (1.0)"  # pictures of things whose models are reported
SILENT = {"assets", "gltf", "models", "images", "textures"}  # folders whose names say nothing of a thing
VERSION = re.compile(r"[( -]+[\d.]+\)?$")


@dataclass(frozen=True)
class CaptionWorld:
    """Items, the arms that differ on them, and the world whose items chose the rates."""

    name: str
    chosen_on: str | None = None  # none: a world that chooses, and is not reported
    arms: Sequence[str] = tuple(ARMS)


WORLDS = (
    CaptionWorld("other furniture"),
    CaptionWorld("pictures of kits"),
    CaptionWorld("furniture", "other furniture"),
    CaptionWorld("models of kits", "pictures of kits"),
    CaptionWorld("emoji", "pictures of kits", (ONE, "MFH")),  # one text each: the other arms are the same
)


def compare_captions(args: argparse.Namespace) -> Iterator[str]:
    """Run what the results lack, seed by seed and arm by arm, and then the tables of them."""
    if args.data is None:
        raise MultifoldError("the part captions needs --data, a folder with items.jsonl")
    torch.set_num_threads(1)
    results = StoredResults(args.out / "captions.jsonl")
    prepared = {world.name: _prepare(world.name, args.data, args.out) for world in WORLDS}
    for world in WORLDS:
        if world.chosen_on is None:
            _choose(prepared[world.name], world, args.seconds * CHOOSING_SHARE, results)
    reported = [world for world in WORLDS if world.chosen_on is not None]
    steps = {one.name: _steps(prepared[one.name], one, args.seconds, results) for one in reported}
    order = [(world, seed) for seed in SEEDS for world in reported]
    for world, seed in sorted(order, key=lambda pair: len(pair[0].arms) < len(ARMS)):
        for arm in world.arms:
            rate = _chosen_rate(results, world, arm)
            results.run(prepared[world.name], world, arm, seed, rate, steps[world.name][arm])
    for world in reported:
        yield from _table(world, results, prepared[world.name])


class StoredResults:
    """The lines of a file; what it has is not run again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.lines: list[Result] = [json.loads(line) for line in lines]

    def of(self, **keys: object) -> list[Result]:
        return [one for one in self.lines if all(one.get(key) == value for key, value in keys.items())]

    def add(self, line: Result) -> None:
        self.lines.append(line)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def run(
        self, prepared: PreparedRun, world: CaptionWorld, arm: str, seed: int, rate: float, steps: int
    ) -> None:
        """Train and measure an arm, unless that has been done."""
        keys = {"world": world.name, "arm": arm, "seed": seed, "rate": rate}
        if self.of(**keys):
            return
        run = _start(prepared, arm, seed, rate, steps)
        seconds = _advance(run, steps)
        assert prepared.held_out is not None
        found = prepared.held_out.measure(run.model)
        recalls = {name: 100 * found[name] for name in COLUMNS}
        measure = mean(value for name, value in recalls.items() if not name.endswith("R@5"))
        self.add({**keys, "steps": steps, "seconds": round(seconds, 2), MEASURE: measure, **recalls})


def _prepare(name: str, data: Path, out: Path) -> PreparedRun:
    """The items of a world, their views and tokens; the test split stands where val is measured."""
    path = out / f"{name.replace(' ', '-')}.jsonl"
    if not path.exists():
        manifest.write(path, _entries(name, data, out))
    measured = ("data.val_split=test", "validation.every=1", "validation.items=5000", "train.epochs=0")
    recipe = library.load_recipe(RECIPE, (f"data.manifest={path}", *measured))
    place = RunPlace(out, out / "cache", "cpu", SINGLE_PROCESS)
    return prepare_run(recipe, place, stored=None, strict=False)


def _entries(name: str, data: Path, out: Path) -> Iterable[ManifestEntry]:
    if name in PIECES:
        seed, count = PIECES[name]
        pieces = write_furniture(FurnitureOrder(out / f"{name.replace(' ', '-')}", seed), count)
        return [one if one.split == "train" else replace(one, split="test") for one in pieces]
    lines = map(json.loads, (data / "items.jsonl").read_text(encoding="utf-8").splitlines())
    files = defaultdict[str, list[Line]](list)
    for line in lines:
        if _world_of(line) == name:
            files[line.get("object", line["id"])].append(line)
    return [_kit_entry(data, key, several) for key, several in files.items()]


def _world_of(line: Line) -> str | None:
    if line["group"] == SHOWN_TWICE:
        return None
    if line["group"] == "emoji":
        return "emoji"
    return "models of kits" if line["kind"] == "model" else "pictures of kits"


def _kit_entry(data: Path, name: str, files: Sequence[Line]) -> ManifestEntry:
    first, paths = files[0], tuple(data / file["file"] for file in files)
    seen = {"mesh": paths[0]} if first["kind"] == "model" else {"images": paths}
    return ManifestEntry(id=name, texts=kit_captions(first), split=split_of(name, SHARES), **seen)


def kit_captions(file: Line) -> tuple[str, ...]:
    """What is known of a file in words: its name, with its kit, with its folders, and all words as tags."""
    name = file["text"]
    if _world_of(file) == "emoji":
        return (name,)
    kit = VERSION.sub("", file["group"]).replace("-", " ").lower()
    folders = PurePosixPath(file["file"]).parts[3:-1]
    places = " ".join(part.replace("_", " ").lower() for part in folders if part.lower() not in SILENT)
    tags = ", ".join(sorted({*name.split(), *kit.split(), *places.split()}))
    return tuple(dict.fromkeys([name, f"{name}, {kit}", f"{places or kit} {name}", tags]))


def _choose(prepared: PreparedRun, world: CaptionWorld, seconds: float, results: StoredResults) -> None:
    steps = _steps(prepared, world, seconds, results)
    for rate in RATES:
        for arm in world.arms:
            results.run(prepared, world, arm, CHOOSING_SEED, rate, steps[arm])


def _chosen_rate(results: StoredResults, world: CaptionWorld, arm: str) -> float:
    tried = results.of(world=world.chosen_on, arm=arm, seed=CHOOSING_SEED)
    best = max(tried, key=lambda result: float(result[MEASURE]))
    return float(best["rate"])


def _steps(
    prepared: PreparedRun, world: CaptionWorld, seconds: float, results: StoredResults
) -> dict[str, int]:
    """The steps of each arm in these seconds of processor time; measured in turns, and then kept."""
    if not (stored := results.of(steps_of=world.name)):
        runs = {arm: _start(prepared, arm, CHOOSING_SEED, RATES[0], 10**6) for arm in world.arms}
        for run in runs.values():
            _advance(run, STEPS_OF_A_TURN)
        turns = [{arm: _advance(run, STEPS_OF_A_TURN) for arm, run in runs.items()} for _ in range(TURNS)]
        of_step = {arm: median(turn[arm] for turn in turns) / STEPS_OF_A_TURN for arm in world.arms}
        results.add({"steps_of": world.name, **{arm: round(seconds / of_step[arm]) for arm in world.arms}})
        stored = results.of(steps_of=world.name)
    return {arm: int(stored[0][arm]) for arm in world.arms}


def _start(prepared: PreparedRun, arm: str, seed: int, rate: float, steps: int) -> TrainingRun:
    changed = library.load_recipe(
        RECIPE, (*ARMS[arm], f"train.seed={seed}", f"train.rate={rate}", f"train.steps={steps}")
    )
    recipe: Recipe = prepared.recipe.model_copy(update={"loss": changed.loss, "train": changed.train})
    return TrainingRun(recipe, prepared.items, prepared.tokenizer, torch.device("cpu"))


def _advance(run: TrainingRun, steps: int) -> float:
    """Go on by so many steps; the processor seconds."""
    began = time.process_time()
    for _ in range(steps):
        batch = next(run.batches)
        run.step += 1
        loop.step(run, batch)
    return time.process_time() - began


def _table(world: CaptionWorld, results: StoredResults, prepared: PreparedRun) -> Iterator[str]:
    """Means over the seeds that all arms ended with, and what each leads one caption by, seed by seed."""
    found = {arm: results.of(world=world.name, arm=arm) for arm in world.arms}
    seeds = sorted(set.intersection(*({one["seed"] for one in found[arm]} for arm in world.arms)))
    runs = {arm: [one for one in found[arm] if one["seed"] in seeds] for arm in world.arms}
    assert prepared.held_out is not None
    learned, searched = len(prepared.items.captions), len(prepared.held_out.captions)
    yield f"\n{world.name}: {learned} items to learn from, {searched} to search, {len(seeds)} seeds\n"
    yield head("run", "rate", "steps", "CPU s", *TITLES)
    for arm, ours in runs.items():
        recalls = [f"{mean(one[name] for one in ours):.1f}" for name in (MEASURE, *COLUMNS)]
        seconds = f"{mean(one['seconds'] for one in ours):.0f}"
        yield row(arm, ours[0]["rate"], ours[0]["steps"], seconds, *recalls)
    for base in (ONE, DEFAULT):
        for arm in (arm for arm in world.arms if base in world.arms and arm not in (ONE, base)):
            leads = [_lead(runs[arm], runs[base], name) for name in (MEASURE, *COLUMNS)]
            yield row(f"*{arm} over {base}*", "", "", "", *leads)


def _lead(ours: Sequence[Result], theirs: Sequence[Result], name: str) -> str:
    other = {one["seed"]: one[name] for one in theirs}
    return paired_interval([one[name] - other[one["seed"]] for one in ours])


def paired_interval(differences: Sequence[float]) -> str:
    """The mean difference, and its 95 % interval over seeds by Student's t."""
    half = half_width(differences)
    low, high = mean(differences) - half, mean(differences) + half
    return f"{mean(differences):.1f} [{low:.1f}, {high:.1f}]".replace("-", "−")
