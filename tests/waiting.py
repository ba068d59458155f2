"""Waiting for something to come true."""

import threading
import time
from collections.abc import Callable

PATIENCE = 300.0  # seconds: more than a busy machine needs for anything that a test waits for


def until(happens: Callable[[], object], patience: float = PATIENCE, what: str = "it to come true") -> None:
    end = time.monotonic() + patience
    while not happens():
        assert time.monotonic() < end, f"waited {patience:g} s for {what}"
        time.sleep(0.01)


def wait_for(event: threading.Event, what: str) -> None:
    """Until an event is set by another thread."""
    assert event.wait(PATIENCE), f"waited {PATIENCE:g} s for {what}"
