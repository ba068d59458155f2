"""What several seeds and test sets say of a row: means, and intervals of items and of seeds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training import small
from training.reproduction.results import TableResults, estimate
from training.reproduction.runs import RowMeasurement, RowRun, RunOptions
from training.reproduction.tables import TableRow, load_table

ROW = TableRow(name="ours", recipe="demo", fill={"which": "after"})
PLACE = "retrieval/text_to_shape/mean/R@1"


def measured(folder: Path, seed: int, name: str, found: object) -> RowMeasurement:
    """A run that says so on a test set."""
    run = RowRun(ROW, seed, small.recipe(), folder / str(seed))
    path = folder / f"{name}.jsonl"
    path.write_text(name, encoding="utf-8")
    run.folder.mkdir(exist_ok=True)
    line = {"step": 5, "seconds": 7200.0, "memory_mb": 2048}
    (run.folder / "metrics.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    one = RowMeasurement(run, name, ["eval"], {"set": str(path), "label": "kind"})
    one.folder.mkdir(parents=True)
    (one.folder / "report.json").write_text(json.dumps(found), encoding="utf-8")
    return one


def recall(*values: float) -> object:
    return {"retrieval": {"text_to_shape": {"mean": {"R@1": list(values), "NDCG@5": values[0]}}}}


def test_one_seed_has_the_interval_of_its_items(tmp_path: Path) -> None:
    one = measured(tmp_path, 0, "test", recall(0.5, 0.4, 0.7))
    assert str(estimate(ROW, PLACE, [one])) == "50.0 [40.0, 70.0]"
    assert str(estimate(ROW, PLACE.replace("R@1", "NDCG@5"), [one])) == "50.0"
    assert str(estimate(ROW, f"{PLACE}/2", [one])) == "70.0"
    assert str(estimate(ROW, "run/hours", [one])) == "2"
    assert str(estimate(ROW, "run/memory", [one])) == "2"
    assert estimate(ROW, "classes/zero-shot/accuracy", [one]) is None
    assert estimate(ROW, "none", [one]) is None


def test_seeds_add_what_they_differ_by(tmp_path: Path) -> None:
    """Half widths 0.03 below and 0.04 above, and Student's 4.303 of three seeds with deviation 0.1."""
    some = [
        measured(tmp_path, seed, "test", recall(mean, mean - 0.03, mean + 0.04))
        for seed, mean in enumerate((0.4, 0.5, 0.6))
    ]
    found = estimate(ROW, PLACE, some)
    assert found is not None
    apart = 4.303 * 0.1 / 3**0.5
    assert found.mean == pytest.approx(0.5)
    assert found.low == pytest.approx(0.5 - (0.03**2 + apart**2) ** 0.5)
    assert found.high == pytest.approx(0.5 + (0.04**2 + apart**2) ** 0.5)


def test_two_seeds_say_little_and_no_share_is_beyond_its_bounds(tmp_path: Path) -> None:
    some = [
        measured(tmp_path, seed, "test", recall(mean, mean, mean)) for seed, mean in enumerate((0.4, 0.6))
    ]
    assert str(estimate(ROW, PLACE, some)) == "50.0 [0.0, 100.0]"  # 12.706 times 0.1


def test_a_mean_over_sets_or_places_needs_them_all(tmp_path: Path) -> None:
    found = {"linear probe, after": {"accuracy": [0.2, 0.1, 0.3]}}
    others = {"linear probe, after": {"accuracy": [0.6, 0.5, 0.7], "per_class": 0.4}}
    done = [
        measured(tmp_path, 0, "dtd", {"classes": found}),
        measured(tmp_path, 0, "pets", {"classes": others}),
    ]
    place = "classes/linear probe, {which}/accuracy"
    assert str(estimate(ROW, f"*: {place}", done)) == "40.0"
    assert str(estimate(ROW, f"pets: {place}", done)) == "60.0 [50.0, 70.0]"
    assert str(estimate(ROW, [f"pets: {place}", f"dtd: {place}"], done)) == "40.0"
    assert str(estimate(ROW, f"*: {place}", done, by_class=["pets"])) == "30.0"
    assert estimate(ROW, f"*: {place}", done, by_class=["dtd"]) is None
    assert estimate(ROW, f"cars: {place}", done) is None
    assert estimate(ROW, [f"pets: {place}", f"cars: {place}"], done) is None


def test_a_column_without_a_place_is_the_papers_alone(tmp_path: Path) -> None:
    table = load_table("mxm:3")
    one = measured(tmp_path, 0, "test", {})
    row = next(row for row in table.rows if row.recipe)
    ours = RowMeasurement(replace(one.run, row=row), one.name, one.commands, one.filled)
    results = TableResults("mxm:3", table, RunOptions(tmp_path, tmp_path, small=True), [ours])
    page = results.write().with_suffix(".md").read_text("utf-8")
    assert "| Info+Mask, RN101 | paper |" in page
    assert "| 600 | 100 | 55.89 |" in page
