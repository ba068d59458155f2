"""Ingests as processes of their own: run to the end, watched by their memory."""

import json
import resource
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benches.service.running_service import PROGRAM, process_tree, resident_bytes
from multifold.errors import MultifoldError

MEBIBYTE = 1 << 20
EVERY = 0.5  # seconds between two looks at the memory


class IngestBenchError(MultifoldError):
    """A run did not do what it should."""


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise IngestBenchError(otherwise)


@dataclass(frozen=True)
class MemoryMoment:
    """Memory in MiB after so many seconds: of the ingest itself, and of its child processes."""

    seconds: float
    itself: float
    others: float


@dataclass(frozen=True)
class IngestOutcome:
    """The report of one run, and its cost."""

    added: list[str]
    changed: list[str]
    skipped: list[str]
    passed_over: list[str]
    unchanged: int
    seconds: float
    cpu: float
    memory: list[MemoryMoment] = field(default_factory=list)


@dataclass(frozen=True)
class IngestRuns:
    home: Path
    bundle: Path
    workers: int

    def report(self, name: str, what: str = "files") -> IngestOutcome:
        report = self.home / "report.json"
        started = time.monotonic()
        before = _cpu()
        with self._start(name, what, "--report", str(report)) as running:
            memory = list(_memory_of(running, started))
        require(running.returncode == 0, f"The ingest ended with {running.returncode}.")
        seconds, cpu = time.monotonic() - started, _cpu() - before
        raw = json.loads(report.read_text())
        skipped = [one["name"] for one in raw["skipped"]]
        return IngestOutcome(
            added=raw["added"],
            changed=raw["changed"],
            skipped=skipped,
            passed_over=raw["passed_over"],
            unchanged=raw["unchanged"],
            seconds=seconds,
            cpu=cpu,
            memory=memory,
        )

    def _start(self, name: str, what: str, *more: str) -> subprocess.Popen[bytes]:
        words = ["ingest", str(self.home / what), "--data", str(self.home / name), "--bundle"]
        words += [str(self.bundle), "--workers", str(self.workers), *more]
        return subprocess.Popen(  # noqa: S603 (ourselves)
            [*PROGRAM, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
        )


def _cpu() -> float:
    """Processor time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _memory_of(running: subprocess.Popen[bytes], started: float) -> Iterator[MemoryMoment]:
    """Resident memory of a process and its children, polled until it ends."""
    while running.poll() is None:
        itself, *others = map(resident_bytes, process_tree(running.pid))
        yield MemoryMoment(time.monotonic() - started, itself / MEBIBYTE, sum(others) / MEBIBYTE)
        time.sleep(EVERY)
