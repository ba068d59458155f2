"""The benchmark of a GPU measures on the CPU where there is none."""

import pytest

from benches import reporting
from multifold.cli import main


def test_what_a_gpu_would_do_is_measured_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reporting, "SECONDS", 0.01)
    sizes = ["--rows", "300", "--dim", "8", "--queries", "300"]
    assert main(["bench", "gpu", *sizes, "--types", "cpu:Flat", "cpu:HNSW8,SQ8"]) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert {("cpu", "Flat"), ("cpu", "HNSW8,SQ8")} <= {(row[0], row[1]) for row in rows if len(row) > 6}
    assert ["furniture", "CPU"] in [row[:2] for row in rows]
