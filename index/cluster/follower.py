"""The thread that brings what is derived from a shared store up to date; searches take what is there."""

import logging
import threading
import time
from collections.abc import Callable

from multifold.errors import MultifoldError

log = logging.getLogger(__name__)

PART_OF_STALENESS = 2  # the store is looked at so often within the staleness
HURRY = 10  # times as often while something is behind


class Follower:
    """Takes a step soon after it is woken, and again and again without that."""

    def __init__(self, step: Callable[[], bool], staleness: float) -> None:
        """`step` brings everything up to date as far as it can, and tells whether it is."""
        self._step = step
        self._pause = staleness / PART_OF_STALENESS
        self._woken = threading.Event()
        self._over = False
        self._current = False
        self._was_current = time.monotonic()  # when the last step began after which nothing was behind
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._woken.set()

    def behind(self) -> float:
        """Seconds for which something has been behind; 0 if nothing was when it looked last."""
        return 0.0 if self._current else time.monotonic() - self._was_current

    def close(self) -> None:
        """Wait for the step that is under way, and take a last one."""
        self._over = True
        self.wake()
        self._thread.join()

    def _run(self) -> None:
        over = False
        while not over:
            over = self._over  # then this is the last step
            self._woken.clear()
            begun = time.monotonic()
            outcome = self._stepped()
            self._current = bool(outcome)
            if self._current:
                self._was_current = begun
            if not over:
                self._woken.wait(self._pause / HURRY if outcome is False else self._pause)

    def _stepped(self) -> bool | None:
        """Whether everything is up to date; None after a failure."""
        try:
            return self._step()
        except MultifoldError as error:  # of a server that is away; its connection has told the log
            log.debug("an index is brought up to date later: %s", error)
        except Exception:
            log.exception("an index could not be brought up to date; this is tried again")
        return None
