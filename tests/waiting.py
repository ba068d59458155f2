"""Waiting for something to come true."""

import time
from collections.abc import Callable


def until(happens: Callable[[], object], patience: float = 60.0, what: str = "it to come true") -> None:
    end = time.monotonic() + patience
    while not happens():
        assert time.monotonic() < end, f"waited {patience:g} s for {what}"
        time.sleep(0.01)
