"""A row of a table: its recipe, its training and its measurement, by the commands that anybody can repeat.

Runs lie in one folder and are named by their recipe and its digest. So tables share them, what is there is
not made again, and what broke off goes on.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from multifold import cli
from multifold.bundle.bundle import file_hash
from multifold.errors import MultifoldError
from training.recipes import library
from training.recipes.schema import AugmentSection, Recipe, parse_recipe
from training.reproduction.tables import PaperTable, TableRow

RECIPE, CHECKPOINT, METRICS, DONE = "recipe.toml", "checkpoint.pt", "metrics.jsonl", "done"
SMALL_RECIPE = "ablation"  # the recipe whose towers and schedule a small machine takes
CARRIED = ("tokens", "final_norm", "scale")  # what a tower keeps of its recipe
content = cache(file_hash)  # of manifests, which are read once
TRIAL = 12  # steps that a run is timed by; the first two count for nothing


@dataclass(frozen=True)
class RunOptions:
    """How all rows are trained and measured, and where."""

    out: Path
    cache: Path
    manifest: Path | None = None
    tests: Mapping[str, Path] = field(default_factory=dict)  # manifests of test sets, by name
    label: str = "label"
    prompts: Mapping[str, Path] = field(default_factory=dict)  # of the classes of test sets
    small: bool = False
    steps: int | None = None
    seconds: float | None = None
    changes: Sequence[str] = ()
    device: str = "auto"


@dataclass(frozen=True)
class RowRun:
    """One training of a row, by one seed."""

    row: TableRow
    seed: int
    recipe: Recipe
    folder: Path

    @property
    def cost(self) -> dict[str, int | float]:
        """Steps, hours and gigabytes, from the log."""
        last = self.log("seconds")[-1]
        return {"steps": last["step"], "hours": last["seconds"] / 3600, "memory": last["memory_mb"] / 1024}

    def log(self, key: str) -> list[dict[str, int | float]]:
        """The lines of the log that have this number."""
        lines = (self.folder / METRICS).read_text(encoding="utf-8").splitlines()
        return [line for line in map(json.loads, lines) if key in line]


def plan_run(row: TableRow, seed: int, options: RunOptions) -> RowRun:
    """The row's recipe as the options change it, and where its run of this seed is."""
    assert row.recipe is not None
    recipe = library.load_recipe(row.recipe, row.changes)
    recipe = library.change_recipe(shrink(recipe) if options.small else recipe, _overrides(seed, options))
    data = "" if options.manifest is None else content(options.manifest)
    name = f"{row.recipe}-{seed}-{_digest([library.to_toml(recipe), data, options.seconds])}"
    return RowRun(row, seed, recipe, options.out / "runs" / name)


def _overrides(seed: int, options: RunOptions) -> list[str]:
    changes = [f"train.seed={seed}"]
    if options.manifest is not None:
        changes.append(f"data.manifest={json.dumps(str(options.manifest.resolve()))}")
    if options.steps is not None:
        changes += [f"train.steps={options.steps}", "train.epochs=0"]
    return [*changes, *options.changes]


def shrink(recipe: Recipe) -> Recipe:
    """The same comparison in small towers, from scratch, with as many images a step as these take.

    Geometry, loss and teacher stay, pairs or groups, and what the towers' features are read from.
    """
    raw = library.load_recipe(SMALL_RECIPE).model_dump(exclude_none=True)
    for side in ("image", "text"):
        section = getattr(recipe, side)
        raw[side] |= {key: getattr(section, key) for key in CARRIED}
        if hasattr(section, "pads"):
            raw[side]["pads"] = section.pads
    for part in ("geometry", "loss", "teacher"):
        raw[part] = getattr(recipe, part).model_dump()
    drawn = recipe.train.model_dump(include={"views", "captions", "pairs"})
    items = min(recipe.train.items, raw["train"]["items"] // max(1, drawn["views"]))
    raw["train"] |= {**drawn, "items": items, "augment": AugmentSection().model_dump()}
    return parse_recipe(raw | {"name": recipe.name, "about": recipe.about}, recipe.name)


def timed(run: RowRun, options: RunOptions, seconds: float) -> Recipe:
    """The run's recipe with as many steps as the time allows, of which a few are tried."""
    steps = [f"train.steps={TRIAL}", "train.epochs=0", "train.log_every=1", "validation.every=0"]
    trial = replace(run, recipe=library.change_recipe(run.recipe, steps), folder=run.folder / "trial")
    train(trial, replace(options, seconds=None))
    first, *_, last = trial.log("seconds")[1:]
    a_step = (last["seconds"] - first["seconds"]) / (last["step"] - first["step"])
    count = max(1, round(seconds / max(a_step, 1e-4)))
    return library.change_recipe(run.recipe, [f"train.steps={count}", "train.epochs=0"])


def train(run: RowRun, options: RunOptions) -> None:
    """Train the row, or go on with it, unless it is done."""
    if (run.folder / CHECKPOINT).exists():
        return
    path = run.folder / RECIPE
    if not path.exists():
        recipe = run.recipe if options.seconds is None else timed(run, options, options.seconds)
        run.folder.mkdir(parents=True, exist_ok=True)
        path.write_text(library.to_toml(recipe), encoding="utf-8")
    words = ["train", str(path), "--out", str(run.folder), "--resume"]
    command([*words, "--cache", str(options.cache), "--device", options.device])


@dataclass(frozen=True)
class RowMeasurement:
    """What a table's commands say of a run's checkpoint on one test set."""

    run: RowRun
    name: str  # of the set
    commands: Sequence[str]
    filled: Mapping[str, str]

    @cached_property
    def folder(self) -> Path:
        """Of the files that the commands write; tables that measure alike share it."""
        read = [content(Path(self.filled[name])) for name in ("set", "prompts") if name in self.filled]
        key = _digest([self.commands, self.filled["label"], read])
        return self.run.folder / "measured" / key

    @property
    def done(self) -> bool:
        return (self.folder / DONE).exists()

    def make(self, device: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        places = {**self.filled, "out": str(self.folder)}
        for one in self.commands:
            words = [word.format_map(places) for word in shlex.split(one)]
            command([*words, "--device", device] if words[0] == "eval" else words)
        (self.folder / DONE).touch()

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """All that the commands have written as JSON, in one table."""
        found: dict[str, Any] = {"run": self.run.cost}
        for path in sorted(self.folder.glob("*.json")):
            found |= json.loads(path.read_text(encoding="utf-8"))
        return found


def plan_measurements(table: PaperTable, run: RowRun, options: RunOptions) -> list[RowMeasurement]:
    """One for each test set."""
    places = {"label": options.label, "cache": str(options.cache), "checkpoint": str(run.folder / CHECKPOINT)}
    planned = []
    for name, path in options.tests.items():
        commands = [*map(run.row.filled, table.measures_of(name))]
        filled = {**places, "set": str(path)}
        if name in options.prompts:
            commands = [f"{one} --prompts {{prompts}}" if "{label}" in one else one for one in commands]
            filled["prompts"] = str(options.prompts[name])
        planned.append(RowMeasurement(run, name, commands, filled))
    return planned


def _digest(told: object) -> str:
    return sha256(json.dumps(told).encode()).hexdigest()[:10]


def command(words: Sequence[str]) -> None:
    print(f"\n$ multifold {shlex.join(words)}", flush=True)
    if cli.main(words):
        raise MultifoldError(f"`multifold {shlex.join(words)}` failed")
