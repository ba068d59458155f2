"""The race beside other libraries: ours finish it, and a library that is missing is named."""

import argparse

import pytest

from benches.race import race
from benches.race.libraries import EmbeddedLibrary


class NeverInstalled(EmbeddedLibrary):
    """A library that nobody has."""

    package, title = "no_such_library", "a missing library"


def test_ours_finish_and_a_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(race.RACERS, "missing", NeverInstalled)
    parser = argparse.ArgumentParser()
    race.add_arguments(parser)
    words = "--rows 3000 --dim 8 --queries 16 --only missing index collection"
    assert race.run(parser.parse_args(words.split())) == 0
    told = capsys.readouterr().out
    assert "a missing library is left out: no module no_such_library is installed" in told
    for title in ("ours, index", "ours, collection"):
        assert f"{title} is done" in told
        lines = [line for line in told.splitlines() if line.startswith(f"| {title} |")]
        assert len(lines) == 1 + len(race.RECALLS) * len(race.BOUNDS) + 1  # filled, searched, replaced
        assert all("| 1.000 |" in line for line in lines[1:])  # so few rows are all compared
