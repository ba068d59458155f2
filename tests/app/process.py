"""`multifold serve` as a process of its own."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.waiting import PATIENCE, until


class Process:
    """A running `multifold serve`, and what it has printed."""

    def __init__(self, data: Path, bundle: Path, *more: str, **environment: str) -> None:
        words = ["serve", "--data", str(data), "--bundle", str(bundle), "--port", "0", *more]
        code = "import sys; from multifold.cli import main; sys.exit(main(sys.argv[1:]))"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )
        self.lines: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def client(self) -> httpx.Client:
        """A client of it, once it says that it is ready."""
        until(lambda: self.process.poll() is not None or self._address(), what="the service to start")
        if found := self._address():
            return httpx.Client(base_url=found[1], trust_env=False, timeout=600)
        raise AssertionError(f"it never got ready: {self.output}")

    def _address(self) -> re.Match[str] | None:
        return re.search(r"ready at (\S+)", self.output)

    def wait(self) -> int:
        status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return status


@contextmanager
def serve(data: Path, bundle: Path, *more: str, **environment: str) -> Iterator[Process]:
    running = Process(data, bundle, *more, **environment)
    try:
        yield running
    finally:
        running.process.kill()
        running.wait()
        assert running.process.stdout is not None
        running.process.stdout.close()
