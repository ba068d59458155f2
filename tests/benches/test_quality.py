"""The benchmark of quality, on few pieces, and the descriptions that it asks with."""

import csv
import json
from pathlib import Path

import pytest

from benches.quality.worlds import OTHER_WORDS
from multifold.cli import main


@pytest.mark.slow
def test_furniture_is_asked_before_and_after_a_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "quality.json"
    few = ["--items", "12", "--queries", "8", "--encoder", "demo", "random"]
    assert main(["bench", "quality", *few, "--world", "furniture", "mixed", "emoji", "--out", str(out)]) == 0
    printed = capsys.readouterr().out.splitlines()
    rows = json.loads(out.read_text(encoding="utf-8"))
    assert "emoji left out: --data names no folder" in printed
    assert len(rows) == len([line for line in printed if line.startswith("| furniture,")])
    kinds = {(row["world"], row["encoder"], row["fit"], row["asked with"]) for row in rows}
    assert len(kinds) == len(rows) == 2 * 2 * (4 * 2 + 3)
    assert all(len(row["answers"]) == row["queries"] for row in rows)
    assert all(0 <= row["R@1"] <= row["R@10"] <= 1 for row in rows)
    found = {(row["world"], row["asked with"]): row["R@10"] for row in rows if row["encoder"] == "demo"}
    assert found["furniture, 4 captions", "one more caption"] > 0.5
    assert found["furniture, 50 % models", "caption itself"] > 0.5


def test_descriptions_have_two_halves_and_stand_once() -> None:
    with open(OTHER_WORDS, encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    for world, absent in (("models", 20), ("emoji", 20), ("objects", 10)):
        ours = [row for row in rows if row["world"] == world]
        halves = [sum(row["use"] == use for row in ours) for use in ("choose", "report")]
        assert sum(halves) == len(ours) > 100
        assert abs(halves[0] - halves[1]) <= 2
        assert len({row["text"] for row in ours}) == len(ours)
        assert sum(not row["item"] for row in ours) == absent
    reported = [row for row in rows if row["world"] == "symbols"]
    assert {row["use"] for row in reported} == {"report"}
    assert len({row["text"] for row in reported}) == len(reported) > 150
    assert sum(not row["item"] for row in reported) == 19
