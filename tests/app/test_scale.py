"""The tables of docs/scale.md are what its figures come to."""

import re
from pathlib import Path

import pytest

from benches.service import scale
from benches.service.scale import PHOTO, SHAPE, ItemKind, MeasuredFigures
from multifold.cli import main

DOC = Path(__file__).resolve().parents[2] / "docs" / "scale.md"
MILLION = 1e6


def test_the_document_shows_these_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "scale"]) == 0
    assert capsys.readouterr().out.strip() in DOC.read_text(encoding="utf-8")


def test_the_document_names_the_figures() -> None:
    told = re.sub(r"(?<=\d),(?=\d{3})", "", DOC.read_text(encoding="utf-8"))
    for value in (2572, 291, 2424, 0.99, 2.08, 3.39, 1.44, 113.7, 44, 21.5):
        assert f"{value} " in told


def test_by_hand() -> None:
    figures = MeasuredFigures()
    assert PHOTO.rows == 4
    assert SHAPE.rows == 19
    assert scale.memory_gb(figures, PHOTO, MILLION) == pytest.approx(4e6 * 2572 / 1e9)
    assert scale.shard_count(figures, PHOTO, 1e9) == 67  # 10,288 GB by 153.6
    assert scale.rendering_hours(figures, SHAPE, MILLION) == pytest.approx(12e6 / 113.7 / 3600)
    assert scale.rendering_hours(figures, PHOTO, MILLION) == 0
    assert scale.embedding_hours(figures, PHOTO, MILLION) == pytest.approx(1e6 * (3.39 + 1.44) / 3.6e6)
    assert scale.written_rate(figures, PHOTO) == pytest.approx(1e6 / 87)
    assert scale.COLUMNS["with codes: in memory, GB"](figures, SHAPE, MILLION) == pytest.approx(19 * 0.291)
    assert scale.search_ms(figures, PHOTO, MILLION) == pytest.approx(0.99)
    assert scale.search_ms(figures, PHOTO, MILLION / 4) == pytest.approx(0.99 / 2)
    assert scale.build_hours(figures, PHOTO, MILLION) == pytest.approx(4 * 58 / 3600)
    assert scale.query_cores(figures, PHOTO, MILLION) == pytest.approx(0.2 * 3.07)


@pytest.mark.parametrize("thing", [PHOTO, SHAPE], ids=lambda thing: thing.name)
@pytest.mark.parametrize("column", scale.COLUMNS)
def test_more_items_never_cost_less(thing: ItemKind, column: str) -> None:
    costs = [scale.COLUMNS[column](MeasuredFigures(), thing, 10.0**decade) for decade in scale.DECADES]
    assert costs == sorted(costs)


def test_a_figure_can_be_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "scale", "--memory-gb", "1000000"]) == 0
    assert "| shards | 1 | 1 | 1 | 1 | 1 |" in capsys.readouterr().out
