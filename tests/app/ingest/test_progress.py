"""How far an ingest is, where no bar can be drawn."""

import pytest

from app.ingest.progress import ProgressLines, show_progress


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr("app.ingest.progress.monotonic", lambda: now[0])
    return now


def test_a_line_comes_now_and_then(seconds: list[float]) -> None:
    said: list[str] = []
    lines = ProgressLines("encoding", 1320, said.append)
    for done in range(0, 1300, 100):
        lines.show(done)
        seconds[0] += 4
    assert said == [
        "encoding: 300 of 1,320 items",
        "encoding: 600 of 1,320 items",
        "encoding: 900 of 1,320 items",
        "encoding: 1,200 of 1,320 items",
    ]


def test_without_a_total_the_count_alone_is_said(
    seconds: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ProgressLines("reading meshes", None)
    seconds[0] = 11
    lines.show(186)
    assert capsys.readouterr().out == "reading meshes: 186\n"


def test_counts_add_up_where_there_is_no_terminal(
    seconds: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in show_progress("ingesting", [2, 3, 0, 1], 6, int):
        seconds[0] += 11
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"ingesting: {done} of 6 items" for done in (2, 5, 5, 6)]
