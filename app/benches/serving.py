"""A service as a process of its own."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.benches.taking import PROGRAM


@contextmanager
def serving(data: Path, bundle: Path) -> Iterator[str]:
    """The address of a service over this folder, until the block ends."""
    given = ["serve", "--data", str(data), "--bundle", str(bundle), "--port", "0"]
    with subprocess.Popen(  # noqa: S603 (ourselves)
        [*PROGRAM, *given], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        try:
            assert running.stdout is not None
            ready = next(line for line in running.stdout if line.startswith("ready at "))
            threading.Thread(target=running.stdout.read, daemon=True).start()
            yield ready.split()[2]
        finally:
            running.terminate()
