"""A service in a process of its own, and what it takes of the machine."""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.settings import Settings
from benches.service.processes import PROGRAM, processor_time, resident_bytes
from multifold.errors import MultifoldError


@dataclass(frozen=True)
class RunningService:
    process: int
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cpu(self) -> float:
        """Seconds of processor time."""
        return processor_time([self.process])

    def resident(self) -> int:
        return resident_bytes(self.process)

    def files(self) -> int:
        return len(os.listdir(self._proc / "fd"))

    def threads(self) -> int:
        return len(os.listdir(self._proc / "task"))

    @property
    def _proc(self) -> Path:
        return Path(f"/proc/{self.process}")


@contextlib.contextmanager
def run_service(settings: Settings, **environment: str) -> Iterator[RunningService]:
    """A running service with the data, bundle and threads of these settings."""
    words = ["serve", "--data", str(settings.data), "--bundle", str(settings.bundle), "--port", "0"]
    process = subprocess.Popen(  # noqa: S603 (ourselves)
        [*PROGRAM, *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "MULTIFOLD_THREADS": str(settings.threads), **environment},
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"ready at http://[^:]+:(\d+)", line):
                yield RunningService(process.pid, int(found[1]))
                break
        else:
            raise MultifoldError("the service did not get ready")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
