"""Worker processes as their parent sees them."""

import sys
from pathlib import Path

import pytest

from renderers.processes import Worker

TALKS = """#!{python}
import sys
from renderers.messages import message_frame
for message in ({{"notice": "compiling"}}, {{"ready": True}}):
    sys.stdout.buffer.write(message_frame(message))
sys.stdout.flush()
sys.stdin.read()
"""


def test_what_a_worker_says_while_it_starts_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "python"
    program.write_text(TALKS.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    worker = Worker(1 << 30, "numba")
    try:
        worker.wait_until_ready()
    finally:
        worker.kill()
    assert [record.getMessage() for record in caplog.records] == ["the renderer is compiling"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_know_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    worker = Worker(1 << 30, "numba")
    try:
        assert b"hunter2" not in Path(f"/proc/{worker.pid}/environ").read_bytes()
    finally:
        worker.kill()
