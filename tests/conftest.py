"""What several rooms are tested with."""

import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import config

from tests.index.buckets import BucketServer
from tests.index.clusters import MilvusServer
from tests.index.servers import Server

FRESH = os.environ.get("MULTIFOLD_DRAWS") == "fresh"  # else every run draws the same examples
# drawing may be slow beside other work
settings.register_profile(
    "fixed", derandomize=not FRESH, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")
# Files that take longest begin first: at the end no process waits for another.
LONGEST = (
    "tests/examples/test_examples.py",
    "tests/drills/test_one_machine.py",
    "tests/training/test_improve_doc.py",
    "tests/index/test_shape_ranking.py",
    "tests/index/test_cells.py",
)
TEST_SECONDS, SLOW_TEST_SECONDS = 600, 3600  # no test waits longer, whatever it waits for
CHECKED_SECONDS = 1.0  # of a test's processor time in which the shapes of arrays are checked at every call


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of files; within a file nothing moves."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONGEST)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Interrupt a test that takes too long where it waits, and check shapes while it is young: later calls
    repeat earlier ones, and checking them takes longer than the calls.
    """
    if threading.current_thread() is not threading.main_thread():
        return (yield)
    seconds = SLOW_TEST_SECONDS if item.get_closest_marker("slow") else TEST_SECONDS

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"{item.nodeid} took longer than {seconds} s; it waits where this was raised")

    def leave_unchecked(_signal: int, _frame: FrameType | None) -> None:
        config.update("jaxtyping_disable", True)

    unchecked = config.jaxtyping_disable
    former = signal.signal(signal.SIGALRM, interrupt), signal.signal(signal.SIGVTALRM, leave_unchecked)
    signal.alarm(seconds)
    signal.setitimer(signal.ITIMER_VIRTUAL, CHECKED_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGALRM, former[0])
        signal.signal(signal.SIGVTALRM, former[1])
        config.update("jaxtyping_disable", unchecked)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """PostgreSQL; tests that ask for it are skipped where it is not installed."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra 'cluster')")
    running = Server()
    yield running
    running.remove()


@pytest.fixture(scope="session")
def s3() -> Iterator[BucketServer]:
    """An S3-compatible server, named in the environment; skipped where none or no client is installed."""
    pytest.importorskip("boto3", reason="boto3 is not installed (extra 'bucket')")
    running = BucketServer()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running
    running.remove()


@pytest.fixture
def milvus() -> Iterator[MilvusServer]:
    """A real Milvus server; tests that ask for it are skipped where it cannot be had."""
    running = MilvusServer()
    yield running
    running.remove()
