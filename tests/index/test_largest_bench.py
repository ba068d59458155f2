"""The benchmark of a large collection, on a small one."""

from pathlib import Path

import numpy as np
import pytest

from benches.index import largest
from benches.index.generated_vectors import StreamedVectors
from multifold.cli import main


def test_it_is_filled_once_and_asked_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("SEARCHES", "EXACT_QUERIES", "CHANGES"):
        monkeypatch.setattr(largest, name, 5)
    words = ["bench", "largest", "--items", "300", "--dim", "16", "--data", str(tmp_path / "data")]
    told = []
    for _ in range(2):
        assert main(words) == 0
        rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
        told.append({row[0]: row[1] for row in rows if len(row) == 2})
    assert "items a second" in told[0]
    assert "items a second" not in told[1]
    for one in told:
        assert one["its recall@10"] == "1.000"
        assert one["snapshot"].endswith("GB")


def test_an_item_of_another_edition_has_its_name_and_other_features() -> None:
    world = largest.GeneratedCollection(16, views=2, captions=1)
    (first,), (again,), (other,) = (world.items(7, 1, edition) for edition in (0, 0, 1))
    assert first.id == again.id == other.id
    assert [one.kind for one in first.observations] == ["view", "view", "caption"]
    features = [item.observations[0].feature.tolist() for item in (first, again, other)]
    assert features[0] == features[1] != features[2]


@pytest.mark.parametrize("stored", ["float16", pytest.param("float32", marks=pytest.mark.slow)])
def test_an_index_is_filled_killed_and_opened_again(
    stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "largest", "--rows", "20000", "--dim", "16", "--data", str(tmp_path / "data")]
    assert main([*words, "--stored", stored]) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    asked = {(row[0], row[1]): float(row[5]) for row in rows if len(row) == 7 and row[0] != "allowed"}
    assert len(asked) == 2 + 2 * 8 + 1
    assert min(asked.values()) > 0.9
    assert int(next(row[1] for row in rows if row[0] == "rows that arrived")) >= 0


def test_streamed_vectors_are_the_same_whichever_comes_first() -> None:
    one, other = StreamedVectors(16), StreamedVectors(16)
    later = one.rows(8, 8)
    assert (other.rows(0, 8) != later).any()
    assert (other.rows(8, 8) == later).all()
    assert np.allclose(np.linalg.norm(later, axis=1), 1)
    assert (one.queries(0, 8) != one.queries(1, 8)).any()
