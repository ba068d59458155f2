"""`multifold pull` of point encoders: weights from a hub or a folder, for `multifold export openshape:`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.pull import points
from app.pull.points import PUBLISHED_POINTS, WEIGHTS_FILE, find_published_points
from multifold.cli import main
from tests.app.pull.hub import COMMIT, Hub, serving

OTHER = "dead" + "0" * 36


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As the hub has them: with more files than are needed."""
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / WEIGHTS_FILE).write_bytes(b"weights")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Points\n")
    return folder


def test_point_encoders_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pull", "--list"]) == 0
    told = capsys.readouterr().out
    assert all(one.name in told and one.repository in told for one in PUBLISHED_POINTS)
    assert find_published_points("OpenShape-B32") is PUBLISHED_POINTS[0]
    assert find_published_points("clip-b32") is None


def test_weights_come_from_a_hub(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, repository = tmp_path / "weights" / "points", "own/tiny"
    monkeypatch.setattr(points, "PUBLISHED_POINTS", (replace(PUBLISHED_POINTS[0], repository=repository),))
    with serving(Hub(folder)) as hub:
        assert main(["pull", "openshape-b32", str(target), "--hub", hub.url]) == 0
    weights = target / WEIGHTS_FILE
    assert weights.read_bytes() == b"weights"
    assert f"multifold export openshape:{weights} --beside" in capsys.readouterr().out
    assert json.loads((target / "origin.json").read_text())["revision"] == COMMIT
    with serving(Hub(folder, commit=OTHER)) as hub:
        assert main(["pull", "openshape-b32", str(target), "--hub", hub.url]) == 2
    assert f"is at {OTHER} now, and was pulled at {COMMIT} before" in capsys.readouterr().err


def test_a_folder_without_weights_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / WEIGHTS_FILE).unlink()
    words = ["pull", "openshape-b32", str(tmp_path / "weights"), "--from", str(folder)]
    assert main(words) == 2
    assert f"lacks its file {WEIGHTS_FILE}" in capsys.readouterr().err
