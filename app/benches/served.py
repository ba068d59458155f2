"""A service in a process of its own, and what it takes of the machine."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.settings import Settings
from multifold.errors import MultifoldError

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Served:
    """A service in a process of its own."""

    process: int
    port: int

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.port}"

    def cpu(self) -> float:
        """Seconds of processor time that it has used."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident(self) -> int:
        """Bytes of memory."""
        return int((self._proc / "statm").read_text().split()[1]) * PAGE

    def files(self) -> int:
        """How many files and connections are open."""
        return len(os.listdir(self._proc / "fd"))

    def threads(self) -> int:
        """How many threads it has."""
        return len(os.listdir(self._proc / "task"))

    @property
    def _proc(self) -> Path:
        return Path(f"/proc/{self.process}")


@contextlib.contextmanager
def served(settings: Settings, **environment: str) -> Iterator[Served]:
    """The service of these settings, ready; its encoder uses one thread."""
    words = ["serve", "--data", str(settings.data), "--bundle", str(settings.bundle), "--port", "0"]
    code = "from multifold.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(  # noqa: S603 (ourselves)
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "MULTIFOLD_THREADS": "1", **environment},
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"ready at http://[^:]+:(\d+)", line):
                yield Served(process.pid, int(found[1]))
                break
        else:
            raise MultifoldError("the service did not get ready")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
