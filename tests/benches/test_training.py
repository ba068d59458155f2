"""The benchmark of training, with the smallest recipe."""

import pytest

from benches.training import loss_times
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
