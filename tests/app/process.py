"""Commands as processes of their own, and `multifold serve` above all."""

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

# An interrupt ends it also where we are in the background ourselves.
CODE = (
    "import signal, sys; from multifold.cli import main; "
    "signal.signal(signal.SIGINT, signal.default_int_handler); sys.exit(main(sys.argv[1:]))"
)


class Process:
    """A running command, and what it has printed."""

    def __init__(self, *words: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )
        self.lines: list[str] = []
        self.heard = 0  # lines that `says` has passed
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def says(self, wanted: str) -> None:
        """Wait for the next line that holds these words."""

        def said() -> bool:
            assert self.process.poll() is None, f"{wanted!r} was never said, but {self.output}"
            for place in range(self.heard, len(self.lines)):
                if wanted in self.lines[place]:
                    self.heard = place + 1
                    return True
            return False

        until(said, what=wanted)

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
def running(*words: str, **environment: str) -> Iterator[Process]:
    """A command, which is killed in the end."""
    process = Process(*words, **environment)
    try:
        yield process
    finally:
        process.process.kill()
        process.wait()
        assert process.process.stdout is not None
        process.process.stdout.close()


@contextmanager
def serve(data: Path, bundle: Path, *more: str, **environment: str) -> Iterator[Process]:
    words = ["serve", "--data", str(data), "--bundle", str(bundle), "--port", "0", *more]
    with running(*words, **environment) as process:
        yield process
