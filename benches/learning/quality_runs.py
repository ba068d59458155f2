"""Runs of the geometries: each is trained, measured and told in tables."""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from benches.learning.ablation import studies
from benches.learning.ablation_runs import changed_recipe
from benches.learning.quality import GEOMETRIES
from benches.reporting import head, row
from training import loop
from training.commands import eval as evaluation
from training.distributed import SINGLE_PROCESS
from training.recipes.library import merge

REPORT = "report.json"
BOTH_CUTS = ("R@1", "R@10")
PAIRS = (("text_to_shape", "mean"), ("shape_to_text", "mean"), ("text_to_image", "each"))
FURTHER_PAIRS = (("image_to_text", "each"), ("agg_text_to_image", "each"))
SHAPES = (("image_to_shape", "mean", "R@1"), ("shape_to_shape", "mean", "R@1"))
TABLES: Sequence[Sequence[tuple[str, str, str]]] = (
    [(*pair, cut) for pair in PAIRS for cut in BOTH_CUTS],
    [*((*pair, cut) for pair in FURTHER_PAIRS for cut in BOTH_CUTS), *SHAPES],
)
CLASSES = ("zero-shot", "linear probe, before", "linear probe, after")

Report: TypeAlias = Mapping[str, Any]


def run(args: argparse.Namespace) -> int:
    """Make the missing runs, then print the tables."""
    for name in () if args.table else args.geometries:
        folder = run_folder(args.out, name)
        if not (folder / REPORT).exists():
            print(f"{name}:", flush=True)
            measure_geometry(train_geometry(name, folder, args), args)
    folders = {name: run_folder(args.out, name) / REPORT for name in args.geometries}
    reports = {name: json.loads(path.read_text("utf-8")) for name, path in folders.items() if path.exists()}
    print("\n\n".join(quality_tables(reports)))
    return 0


def run_folder(out: Path, name: str) -> Path:
    return out / re.sub(r"\W+", "-", name)


def train_geometry(name: str, folder: Path, args: argparse.Namespace) -> Path:
    """Its checkpoint; an unfinished training continues."""
    if (folder / loop.DONE).exists():
        return folder / loop.DONE
    folder.mkdir(parents=True, exist_ok=True)
    data = {"data": {"manifest": str(args.manifest)}}
    recipe = changed_recipe(merge(studies()[GEOMETRIES][name], data), args.seed, args.steps)
    return loop.train_recipe(recipe, folder, args.cache, (folder / loop.LAST).exists(), "cpu", SINGLE_PROCESS)


def measure_geometry(path: Path, args: argparse.Namespace) -> None:
    """Write the report of a checkpoint beside it."""
    parser = argparse.ArgumentParser()
    evaluation.add_arguments(parser)
    words = [str(path), str(args.manifest), "--split", "test", "--protocol", args.protocol]
    words += ["--out", str(path.parent), "--cache", str(args.cache)]
    words += [] if args.items is None else ["--items", str(args.items)]
    words += [] if args.label is None else ["--label", args.label, "--probe"]
    evaluation.run(parser.parse_args(words))


def quality_tables(reports: Mapping[str, Report]) -> list[str]:
    """Markdown, a row a geometry, in percent with 95 % intervals; empty columns are left out."""
    cells = {name: _cells(report["retrieval"], report.get("classes", {})) for name, report in reports.items()}
    tables = [[_title(*column) for column in columns] for columns in TABLES] + [list(CLASSES)]
    filled = [[title for title in some if any(title in one for one in cells.values())] for some in tables]
    return [_table(titles, cells) for titles in filled if titles]


def _cells(retrieval: Report, classes: Report) -> dict[str, str]:
    recalls = {
        _title(name, pool, cut): _percent(retrieval[name][pool][cut])
        for columns in TABLES
        for name, pool, cut in columns
        if pool in retrieval.get(name, {})
    }
    return recalls | {name: _percent(classes[name]["accuracy"]) for name in CLASSES if name in classes}


def _table(columns: Sequence[str], cells: Mapping[str, Mapping[str, str]]) -> str:
    rows = [row(name, *(one.get(column, "") for column in columns)) for name, one in cells.items()]
    return "\n".join([head("geometry", *columns), *rows])


def _title(name: str, pool: str, cut: str) -> str:
    return f"{name.replace('_to_', ' → ').replace('_', '-')}, {pool}, {cut}"


def _percent(interval: Sequence[float]) -> str:
    middle, low, high = (100 * value for value in interval)
    return f"{middle:.1f} [{low:.1f}, {high:.1f}]"
