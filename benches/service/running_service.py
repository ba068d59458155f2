"""A service in a process of its own, and what running processes use, as Linux tells it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.settings import Settings
from multifold.errors import MultifoldError

PROGRAM = (sys.executable, "-m", "multifold")
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
PARENT, TIMES = 1, slice(11, 15)  # fields behind the name: our own time and that of children who ended


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


def process_tree(process: int) -> list[int]:
    """A process and all its running descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children[int(fields[PARENT])].append(int(entry.name))
    found = [process]
    for one in found:
        found += children[one]
    return found


def processor_time(processes: Iterable[int]) -> float:
    """Seconds of all processors, children who have ended included."""
    return sum(sum(map(int, fields[TIMES])) for one in processes if (fields := _stat(one))) / TICK


def resident_bytes(process: int) -> int:
    """Bytes of memory; none once it has ended."""
    words = _read(f"/proc/{process}/statm").split()
    return int(words[1]) * PAGE if words else 0


def _stat(process: int) -> list[str]:
    """The fields after the name, which may hold blanks."""
    return _read(f"/proc/{process}/stat").rpartition(")")[2].split()


def _read(path: str) -> str:
    """Nothing once the process has ended."""
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
