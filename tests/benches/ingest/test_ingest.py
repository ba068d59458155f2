"""The benchmark of ingestion, over few files."""

from pathlib import Path

import pytest

from multifold.cli import main


@pytest.mark.slow
def test_an_ingest_is_measured(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report, and searches beside a service: it checks itself."""
    given = ["--files", "600", "--sample", "40", "--beside", "120", "--broken", "0.1", "--workers", "1"]
    assert main(["bench", "ingest", "--bundle", str(bundle), *given]) == 0
    told = capsys.readouterr().out
    assert "right to the file" in told
    assert "none failed" in told
