"""`multifold index`: its actions, and where it finds a collection."""

from pathlib import Path

import pytest

from index.commands import index, run_index
from multifold.cli import main
from tests.index.commands.shell import Shell, fifty


def test_every_action_that_is_described_can_be_run() -> None:
    assert list(run_index.ACTIONS) == list(index.ACTIONS)


def test_nowhere_there_is_nothing(either: Shell, tmp_path: Path) -> None:
    for words in (["stats"], ["verify"], ["compact"], ["build"], ["remove", "x"], ["snapshot", "x.tar"]):
        assert either(*words) == 2
        assert "There is no collection" in either.err
        assert "postgresql" not in either.err
    assert either("restore", tmp_path / "nothing.tar") == 2
    assert not (either.place.folder / "store.sqlite").exists()


def test_the_environment_names_the_database_and_an_argument_the_folder(
    shared: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULTIFOLD_DATABASE", str(shared.place.database))
    home = ["--data", str(shared.place.folder)]
    assert main(["index", *map(str, fifty(tmp_path)), *home]) == 0
    assert main(["index", "stats", *home]) == 0
    assert main(["index", "stats", *home, "--database", ""]) == 2
