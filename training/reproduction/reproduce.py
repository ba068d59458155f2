"""The work of `multifold reproduce`."""

import argparse
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from multifold import manifest
from multifold.errors import MultifoldError, needs_extra
from training.recipes import library
from training.reproduction.results import TableResults
from training.reproduction.runs import (
    CHECKPOINT,
    SMALL_RECIPE,
    RowMeasurement,
    RowRun,
    RunOptions,
    plan_measurements,
    plan_run,
    train,
)
from training.reproduction.tables import PaperTable, TableRow, list_tables, load_table

with needs_extra("train"):
    from training import prepare

MANIFEST = "test"  # the set of a table that names none
SPLIT, FURNITURE_LABEL, LABEL = "test", "kind", "label"


def run(args: argparse.Namespace) -> int:
    if args.list or args.table is None:
        print(list_tables())
        return 0 if args.list else 2
    table = load_table(args.table)
    rows = chosen_rows(table, args.rows)
    options = make_options(args, table)
    options.out.mkdir(parents=True, exist_ok=True)
    planned = {(row.name, seed): plan_run(row, seed, options) for row in table.ours for seed in args.seeds}
    todo = [planned[row.name, seed] for seed in args.seeds for row in rows]
    for place, run in enumerate(todo):
        print(f"\n{args.table}, run {place + 1} of {len(todo)}: {run.row.name}, seed {run.seed}", flush=True)
        train(run, options)
        for one in plan_measurements(table, run, options):
            if not one.done:
                one.make(options.device)
        page = TableResults(args.table, table, options, collect(table, [*planned.values()], options)).write()
    print(page.with_suffix(".md").read_text(encoding="utf-8"))
    print(f"wrote {page}, and .md and .json beside it")
    return 0


def chosen_rows(table: PaperTable, wanted: Sequence[str] | None) -> list[TableRow]:
    """The rows of ours, or those of them that are named."""
    known = {row.name: row for row in table.ours}
    numbered = {str(place + 1): row for place, row in enumerate(table.ours)}
    for name in wanted or ():
        if name not in known | numbered:
            listed = "; ".join(f"{number} {row.name}" for number, row in numbered.items())
            raise MultifoldError(f"there is no row {name!r}; there are: {listed}")
    return [(known | numbered)[name] for name in wanted] if wanted else table.ours


def make_options(args: argparse.Namespace, table: PaperTable) -> RunOptions:
    """What the command line says, with manifests for all that the table is measured on."""
    learned, label = args.manifest, args.label or LABEL
    if learned is None:
        if not args.small:
            raise MultifoldError(f"{args.table} needs {table.data}: name its --manifest, or try --small")
        learned = prepare.manifest_path(library.load_recipe(SMALL_RECIPE, args.changes), args.cache)
        label = args.label or FURNITURE_LABEL
    tests = test_sets(args.table, table, args.test, learned if args.small else None) or {MANIFEST: learned}
    for name, path in tests.items():
        if any("{label}" in words for words in table.measures_of(name)):
            check_labels(path, label)
    return RunOptions(
        out=args.out,
        cache=args.cache,
        manifest=learned,
        tests=tests,
        label=label,
        prompts=files_of_sets(args.table, table, "--prompts", args.prompts),
        small=args.small,
        steps=args.steps,
        seconds=args.seconds,
        changes=args.changes,
        device=args.device,
    )


def test_sets(
    name: str, table: PaperTable, named: Sequence[str], stand_in: Path | None
) -> Mapping[str, Path]:
    """The table's sets as they are named; a manifest may stand for the others."""
    sets = {one: stand_in for one in table.sets if "*" not in one and stand_in is not None}
    sets |= files_of_sets(name, table, "--test", named)
    if table.sets and not sets:
        raise MultifoldError(f"{name} is measured on {', '.join(table.sets)}: name some by --test NAME=FILE")
    return sets


def files_of_sets(name: str, table: PaperTable, option: str, named: Sequence[str]) -> dict[str, Path]:
    """Of some of the table's sets a file each, as an option names them."""
    files = {}
    for one in named:
        known, _, path = one.partition("=")
        if not path or not any(fnmatchcase(known, pattern) for pattern in table.sets):
            told = ", ".join(table.sets) or "no sets beside its manifest"
            raise MultifoldError(f"{option} {one}: {name} knows {told}, as NAME=FILE")
        files[known] = Path(path)
    return files


def check_labels(path: Path, label: str) -> None:
    """Raise where items have no class: all would be right."""
    missing = [entry.id for entry in manifest.read(path, SPLIT) if label not in entry.meta]
    if missing:
        raise MultifoldError(
            f"{path}: {missing[0]} has no {label!r} in its metadata; name the key by --label"
        )


def collect(table: PaperTable, runs: Sequence[RowRun], options: RunOptions) -> list[RowMeasurement]:
    """What of a table's runs has been measured."""
    trained = [run for run in runs if (run.folder / CHECKPOINT).exists()]
    return [one for run in trained for one in plan_measurements(table, run, options) if one.done]
