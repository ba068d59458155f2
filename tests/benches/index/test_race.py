"""The race beside other libraries: racers finish it, and a library that is missing is named."""

import pytest

from benches.index import race
from benches.index.racers import RACERS
from multifold.cli import main

SIZES = ["--rows", "1200", "--dim", "8", "--queries", "16"]


def run(*names: str) -> None:
    assert main(["bench", "race", *SIZES, "--only", *names]) == 0


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("index", 1.0),  # so few rows are all compared
        pytest.param("faiss", 0.9, marks=pytest.mark.slow),
        pytest.param("codes", 1.0, marks=pytest.mark.slow),
        pytest.param("collection", 1.0, marks=pytest.mark.slow),
    ],
)
def test_a_racer_is_filled_searched_and_changed(
    name: str, least: float, capsys: pytest.CaptureFixture[str]
) -> None:
    run(name)
    title = RACERS[name].title
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"| {title} |")]
    filled, *searched, replaced = [line.strip("| ").split(" | ") for line in lines]
    assert len(filled) == len(race.FILLED)
    assert len(searched) == len(race.RECALLS) * len(race.BOUNDS)
    recalls = [row[race.ASKED.index("recall")] for row in searched]
    recalls.append(replaced[race.REPLACED.index("recall after")])
    assert min(map(float, recalls)) >= least
