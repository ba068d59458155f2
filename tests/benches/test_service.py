"""The benchmark of the service, on few items."""

from pathlib import Path

import pytest

from multifold.cli import main


@pytest.mark.slow
def test_the_service_is_measured_beside_the_library(
    tmp_path: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--bundle", str(bundle), "--data", str(tmp_path), "--items", "40", "--views", "2"]
    turns = ["--clients", "1", "2", "--seconds", "1", "--turns", "1"]
    assert main(["bench", "service", *words, *turns]) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    kinds = {tuple(row[:2]) for row in rows if len(row) == 11}
    assert {
        (f"{kind} → {target}", clients)
        for kind in ("text", "image")
        for target in ("item", "shape")
        for clients in "12"
    } <= kinds
