"""`multifold bench` finds benchmarks by name, and says where they are."""

import importlib.util
import re

import pytest

from multifold.cli import main


def test_a_benchmark_is_found_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "nothing"]) == 2
    assert "no benchmark 'nothing'; there are:" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["bench", "render", "--help"])
    assert "usage: multifold bench render" in capsys.readouterr().out


def test_the_help_says_what_each_measures(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["bench", "--help"])
    told = capsys.readouterr().out
    assert re.search(r"^  race +Race our index against bare FAISS", told, re.MULTILINE)
    assert "entry point" not in told


def test_where_there_are_none_it_says_where_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "benches" else find_spec(name)
    )
    assert main(["bench", "render"]) == 2
    told = capsys.readouterr().err
    assert told == "multifold: Benchmarks are in a clone of the Multifold repository only; run this there.\n"
