"""Studies at equal processor time: their runs learn equally long, with what the val split has chosen.

In the folder of the results: `steps.json`, the steps of each run; `choices.jsonl`, the measure of each
candidate on the val split; `results.jsonl`.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benches.learning.ablation import recipe_sections, timed_file, timed_study
from benches.reporting import head, row
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from training import checkpoint, loop, prepare
from training.batches import TrainingItems
from training.data.views import ItemViews
from training.evaluate.ablation import CUTS, AblationRun, ablation_rows, item_hits, measure_of, read_runs
from training.recipes.library import load_recipe, merge
from training.recipes.schema import Recipe, parse_recipe
from training.retrieval.encoder import TorchEncoder
from training.run import TrainingRun
from training.towers.tokenizers import TrainedTokenizer

ROUNDS = 16  # steps of each run that are timed, after a first one


@dataclass(frozen=True, eq=False)
class StudyData:
    """The items of all runs: to learn from, to choose by, and to report."""

    groups: TrainingItems
    tokenizer: TrainedTokenizer
    val: tuple[Sequence[ManifestEntry], ItemViews]
    test: tuple[Sequence[ManifestEntry], ItemViews]


class TimedStudy:
    """One world's runs, made or read from the folder of the results."""

    def __init__(self, study: str, args: argparse.Namespace) -> None:
        self.study, self.plan, self.out = study, timed_study(study), args.out
        self.name = study if args.manifest is None else f"{study} of {args.manifest.stem}"
        protocol = self.plan["protocol"]
        usual = protocol["seconds" if args.manifest is None else "manifest_seconds"]
        self.seconds = args.seconds or usual
        self.seeds = args.seeds or protocol["seeds"]
        self.names = [name for name in self.plan["runs"] if args.runs is None or name in args.runs]
        raw = merge(
            load_recipe(args.recipe or protocol["recipe"]).model_dump(mode="json", exclude_none=True),
            self.plan["base"],
        )
        raw["data"].pop("manifest", None)  # the recipe's own
        own = {} if args.manifest is None else {"manifest": str(args.manifest)}
        self.raw = merge(raw, {"data": own})
        self.equal_texts = args.manifest is not None  # things of a user's share captions, furniture does not
        self.data = load_study(self.recipe(protocol["first"], (), 1, 0), args.cache)

    def recipe(self, run: str, chosen: Sequence[Mapping[str, Any]], steps: int, seed: int) -> Recipe:
        sections = recipe_sections(self.plan["runs"][run])
        train = {"steps": steps, "warmup": steps // 10, "epochs": 0, "seed": seed}
        return parse_recipe(
            reduce(merge, (sections, *chosen, {"train": train}), self.raw), str(timed_file(self.study))
        )

    def make(self) -> list[AblationRun]:
        """The missing runs, seed by seed."""
        steps = self.equal_steps()
        chosen = self.choices(steps)
        results = [run for run in read_runs(self.out / "results.jsonl") if run.study == self.name]
        done = {(run.name, run.seed) for run in results}
        for seed in self.seeds:
            for name in self.names:
                if (name, seed) not in done:
                    print(f"{self.name}, seed {seed}: {name}", flush=True)
                    recipe = self.recipe(name, chosen[name], steps[name], seed)
                    hits, seconds = self.train(recipe, *self.data.test)
                    count = recipe.train.steps * recipe.train.items * (recipe.train.views or 1)
                    found = AblationRun(self.name, name, seed, steps[name], count, round(seconds, 1), hits)
                    append(self.out / "results.jsonl", asdict(found))
                    results.append(found)
        return results

    def equal_steps(self) -> dict[str, int]:
        """As many steps of each run as take the time, by their own cost, measured in turns."""
        path = self.out / "steps.json"
        if not path.exists():
            recipes = {name: self.recipe(name, (), 1000, 0) for name in self.plan["runs"]}
            costs = step_costs(recipes, self.data)
            steps = {name: max(1, round(self._seconds(name) / cost)) for name, cost in costs.items()}
            about = {"study": self.name, "seconds": self.seconds, "costs": costs, "steps": steps}
            path.write_text(json.dumps(about, indent=1), encoding="utf-8")
        told = json.loads(path.read_text(encoding="utf-8"))
        if (told["study"], told["seconds"]) != (self.name, self.seconds):
            raise MultifoldError(
                f"{path} is of {told['study']}, runs of {told['seconds']} s; name another --out"
            )
        found: dict[str, int] = told["steps"]
        return found

    def choices(self, steps: Mapping[str, int]) -> dict[str, list[Mapping[str, Any]]]:
        """What each run adds to its own sections: the candidates that are best on the val split."""
        path, seed = self.out / "choices.jsonl", self.plan["protocol"].get("choosing")
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        scores = {(one["run"], one["candidate"]): one["measure"] for one in map(json.loads, lines)}
        chosen: dict[str, list[Mapping[str, Any]]] = {}
        for name, about in self.plan["runs"].items():
            if name not in self.names and name not in self._liked():
                continue
            before = chosen[about["like"]] if "like" in about else []
            if "choose" not in about:
                chosen[name] = before
                continue
            candidates = self.plan["candidates"][about["choose"]]
            for number, candidate in enumerate(candidates):
                if (name, number) not in scores:
                    print(f"{self.name}, choosing: {name}, {candidate}", flush=True)
                    half = max(1, steps[name] // 2)
                    recipe = self.recipe(name, [*before, candidate], half, seed)
                    hits, seconds = self.train(recipe, *self.data.val)
                    scores[name, number] = float(np.mean(measure_of(hits)))
                    line = {"run": name, "candidate": number, "changes": candidate, "seconds": seconds}
                    append(path, {**line, "measure": scores[name, number]})
            best = max(range(len(candidates)), key=lambda number: scores[name, number])
            chosen[name] = [*before, candidates[best]]
        return chosen

    def _seconds(self, name: str) -> float:
        """The processor time of a run: its own, or that of all."""
        return float(self.plan["runs"][name].get("seconds", self.seconds))

    def _liked(self) -> set[str]:
        """The runs whose choices others take over."""
        return {self.plan["runs"][name]["like"] for name in self.names if "like" in self.plan["runs"][name]}

    def train(
        self, recipe: Recipe, entries: Sequence[ManifestEntry], views: ItemViews
    ) -> tuple[Mapping[str, Mapping[str, list[float]]], float]:
        """The hits of a run on held-out items, and the processor time of its training."""
        started = time.process_time()
        try:
            path = loop.train(recipe, self.data.groups, self.data.tokenizer, self.out)
        except loop.DivergedError as error:
            print(error)
            nothing = {f"R@{cut}": [0.0] * len(entries) for cut in CUTS}
            return dict.fromkeys(("text_to_shape", "shape_to_text"), nothing), time.process_time() - started
        seconds = time.process_time() - started
        model = checkpoint.load_checkpoint(path).model
        encoder = TorchEncoder(model, prepare.reader(recipe, self.data.tokenizer))
        hits = item_hits(encoder, views, [entry.texts for entry in entries], self.equal_texts)
        if self.equal_texts:  # each picture is an item, or stands in the gallery as often as it fills views
            del hits["text_to_image"]
        return hits, seconds


def run(study: str, args: argparse.Namespace) -> None:
    """Make the missing runs, and print what came out."""
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.table:
        plan, log = timed_study(study), args.out / "results.jsonl"
        runs = [one for one in read_runs(log) if one.study.split(" of ")[0] == study]
        names = [name for name in plan["runs"] if args.runs is None or name in args.runs]
        print(timed_tables(plan, runs, names, args.seeds or plan["protocol"]["seeds"], args.against))
        return
    made = TimedStudy(study, args)
    print(timed_tables(made.plan, made.make(), made.names, made.seeds, args.against))


def load_study(recipe: Recipe, cache: Path) -> StudyData:
    seen = prepare.training_set(recipe, cache, False, None)
    texts = [text for entry in seen.entries for text in entry.texts]
    tokenizer = checkpoint.starting_tokenizer(recipe, texts)
    groups = prepare.groups(recipe, seen.entries, tokenizer, cache, seen.views)
    val = prepare.held_out(recipe, cache, recipe.data.val_split, recipe.validation.items)
    test = prepare.held_out(recipe, cache, recipe.data.test_split, recipe.data.test_items)
    print(f"{len(seen.entries)} items to learn from, {len(val[0])} to choose by, {len(test[0])} to report")
    return StudyData(groups, tokenizer, val, test)


def step_costs(recipes: Mapping[str, Recipe], data: StudyData) -> dict[str, float]:
    """The median processor seconds of a step of each, in turns."""
    runs = {
        name: TrainingRun(recipe, data.groups, data.tokenizer, torch.device("cpu"))
        for name, recipe in recipes.items()
    }
    costs: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS + 1):
        for name, run in runs.items():
            started = time.process_time()
            batch = next(run.batches)
            run.step += 1
            loop.step(run, batch)
            costs[name].append(time.process_time() - started)
    return {name: round(median(seconds[1:]), 5) for name, seconds in costs.items()}


def timed_tables(
    plan: Mapping[str, Any],
    runs: Sequence[AblationRun],
    names: Sequence[str],
    seeds: Sequence[int],
    against: str | None = None,
) -> str:
    """Recalls of the seeds that have all runs of one ending, and leads over the first run or another."""
    found, leads, columns = list[str](), list[str](), list[str]()
    first, endings = plan["protocol"]["first"], plan["protocol"]["endings"]
    for ending in endings:
        like = [name for name in names if _ending(name, endings) == ending]
        done = {seed: {run.name for run in runs if run.seed == seed} for seed in seeds}
        whole = [run for run in runs if run.name in like and done.get(run.seed, set()).issuperset(like)]
        if whole:
            columns, rows = ablation_rows(whole, like, measure=True)
            found += [row(*cells) for cells in rows]
            others = [run for run in runs if run.name == against and run not in whole]
            led = ablation_rows([*whole, *others], like, against or first + ending, measure=True)[1]
            leads += [row(*cells) for cells in led]
    if not found:
        return "no seed has all of its runs yet"
    table = [f"\n### {runs[0].study}\n", head(*columns), *found]
    over = against or f"{first}, with the same ending"
    return "\n".join([*table, f"\nLeads over {over}:\n", head(*columns), *leads])


def _ending(name: str, endings: Sequence[str]) -> str:
    return next(end for end in reversed(endings) if name.endswith(end))


def append(path: Path, line: Mapping[str, Any]) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
