"""The benchmarks of learning say what they take, and what they lack, without the extra `train`."""

import sys

import pytest

from benches import reporting
from multifold.cli import main

NAMES = ("ablation", "improve", "loop", "losses", "quality")


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.split(".")[0] == "training" or name.startswith("benches.learning"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("without_torch")
def test_help_needs_no_torch(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["bench", name, "-h"])
    assert f"usage: multifold bench {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("without_torch")
def test_a_run_names_the_extra(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["a-manifest.jsonl"] if name == "quality" else []
    assert main(["bench", name, *words]) == 2
    assert "torch is not installed. It comes with the extra 'train'" in capsys.readouterr().err


def test_what_a_gpu_would_do_is_measured_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reporting, "SECONDS", 0.01)
    sizes = ["--rows", "300", "--dim", "8", "--queries", "300", "--recipes", "folder-small"]
    assert main(["bench", "gpu", *sizes, "--types", "cpu:Flat", "cpu:HNSW8,SQ8"]) == 0
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines()]
    found = {(cells[1].strip(), cells[2].strip()) for cells in lines if len(cells) > 7}
    assert {("cpu", "Flat"), ("cpu", "HNSW8,SQ8")} <= found
    assert any("folder-small" in cells[1] for cells in lines if len(cells) > 2)
