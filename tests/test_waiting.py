"""Every run draws the same examples, and no test waits without an end."""

import signal
import threading

import pytest
from hypothesis import settings

from tests.conftest import FRESH
from tests.waiting import until


def test_every_run_draws_the_same() -> None:
    assert settings().derandomize != FRESH


def test_a_test_that_waits_is_interrupted() -> None:
    signal.alarm(1)  # instead of the limit of this test
    with pytest.raises(TimeoutError, match="test_a_test_that_waits_is_interrupted took longer than 600 s"):
        threading.Event().wait()


def test_a_wait_says_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"waited 0\.05 s for rain"):
        until(lambda: False, 0.05, "rain")
