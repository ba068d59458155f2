"""Runs of `multifold bench shapes`: which are missing, and their log."""

import argparse
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

from benches.shapes.asking import Answers, ask
from benches.shapes.stages import STAGES, steps_within, train_way
from benches.shapes.tables import ShapesRun, shapes_table
from benches.shapes.worlds import ShapeWorld, furniture_world, kit_world


def run(args: argparse.Namespace) -> int:
    """Make the missing runs, seed by seed, then print the tables."""
    args.out.mkdir(parents=True, exist_ok=True)
    log: Path = args.out / "results.jsonl"
    results = read_runs(log)
    done = {(one.world, one.way, one.seed) for one in results}
    wanted = [(seed, world, way) for seed in args.seeds for world in args.worlds for way in args.ways]
    make = cache(lambda world, seed: _world(world, seed, args))
    for seed, world, way in () if args.table else wanted:
        if (world, way, seed) in done:
            continue
        print(f"{world}, {way}, seed {seed}", flush=True)
        items: ShapeWorld = make(world, seed if world == "kits" else args.pieces)
        steps = _steps(world, way, items, args)
        if args.steps:
            print(f"steps: {steps}", flush=True)
            continue
        trained = train_way(items, STAGES[way], steps, seed, args)
        answers = ask(trained.model, items, args.cache)
        results.append(ShapesRun(world, way, seed, steps, trained.cpu_seconds, answers))
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(results[-1])) + "\n")
    for world in args.worlds:
        print(shapes_table(world, [one for one in results if one.world == world and one.seed in args.seeds]))
    return 0


def _steps(world: str, way: str, items: ShapeWorld, args: argparse.Namespace) -> list[int]:
    """The steps of each stage: measured once, the same for all seeds."""
    path: Path = args.out / "steps.json"
    known: dict[str, list[int]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    key = f"{world}, {way}, {args.seconds:g} s"
    if key not in known:
        known[key] = steps_within(args.seconds, items, STAGES[way], args)
        path.write_text(json.dumps(known, indent=1), encoding="utf-8")
    return known[key]


def read_runs(log: Path) -> list[ShapesRun]:
    """The runs of a log."""
    if not log.exists():
        return []
    lines = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    return [
        ShapesRun(**{**line, "answers": {leg: Answers(**one) for leg, one in line["answers"].items()}})
        for line in lines
    ]


def _world(name: str, seed: int, args: argparse.Namespace) -> ShapeWorld:
    if name == "kits":
        return kit_world(args.data, seed, args.cache)
    return furniture_world(name, args.items, seed, args.cache)
