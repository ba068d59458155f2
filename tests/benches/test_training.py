"""The benchmark of training, with the smallest recipe."""

from pathlib import Path

import pytest

from benches.training import captions, loss_times
from multifold.cli import main


@pytest.mark.parametrize(
    ("part", "rows"),
    [
        ("loop", [("folder-small", "64")]),
        ("steps", [("folder-small", "cpu")]),
        ("losses", [("64 × 64", "Hard, p → ∞, whole matrix"), ("64 × 64", "Hard, p → ∞, tiled, 256 rows")]),
    ],
)
@pytest.mark.slow
def test_each_part_prints_a_table(
    part: str,
    rows: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(loss_times, "LARGE", (64,))
    words = ["--recipes", "folder-small", "--rounds", "1", "--steps", "1"]
    assert main(["bench", "training", "--parts", part, *words]) == 0
    cells = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert set(rows) <= {(row[0], row[1]) for row in cells if len(row) > 2}


def test_captions_of_kits() -> None:
    model = {
        "kind": "model",
        "text": "oak table",
        "group": "Furniture-Bits-1.0",
        "file": "models/maker/Furniture-Bits-1.0/Assets/gltf/large_things/oak.gltf",
    }
    assert captions.kit_captions(model) == (
        "oak table",
        "oak table, furniture bits",
        "large things oak table",
        "bits, furniture, large, oak, table, things",
    )
    assert captions.kit_captions({**model, "kind": "image", "group": "emoji"}) == ("oak table",)


def test_interval_of_paired_differences() -> None:
    """By hand: mean 2, deviation √2.5, standard error √0.5, times 2.776."""
    assert captions.paired_interval([0.0, 1.0, 2.0, 3.0, 4.0]) == "2.0 [0.0, 4.0]"
    assert captions.paired_interval([-1.0, -1.0]) == "−1.0 [−1.0, −1.0]"


def test_finished_runs_are_not_made_again(tmp_path: Path) -> None:
    results = captions.StoredResults(tmp_path / "captions.jsonl")
    results.add({"world": "w", "arm": "hard", "seed": 0})
    again = captions.StoredResults(tmp_path / "captions.jsonl")
    assert again.of(world="w", seed=0) == [{"world": "w", "arm": "hard", "seed": 0}]
    assert again.of(world="w", seed=1) == []
