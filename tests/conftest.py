"""What several rooms are tested with."""

import gc
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from tests import tiny
from tests.index.buckets import BucketServer
from tests.index.clusters import MilvusServer
from tests.index.servers import Server

gc.disable()  # while modules are imported, which leave no garbage: looking for it takes a third of the time
# Most tests have photos without a text, and reading one takes a second; those that test it turn it on.
os.environ.setdefault("MULTIFOLD_PHOTO_TEXTS", "off")
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
    "tests/index/search/test_ranking.py",
    "tests/index/engines/test_faiss_index.py",
    "tests/app/commands/test_serve.py",
    "tests/app/runtime/test_folder.py",
)
TEST_SECONDS, SLOW_TEST_SECONDS = 600, 3600  # no test waits longer, whatever it waits for


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of files; within a file nothing moves."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONGEST)))


def pytest_collection_finish() -> None:
    """What was imported is never looked through again."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Interrupt a test that takes too long where it waits."""
    with interrupted(item):
        return (yield)


@contextmanager
def interrupted(item: pytest.Item) -> Iterator[None]:
    """A test that takes too long ends with an error."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seconds = SLOW_TEST_SECONDS if item.get_closest_marker("slow") else TEST_SECONDS

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"{item.nodeid} took longer than {seconds} s; it waits where this was raised")

    former = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny bundle; who changes it, copies it first."""
    return tiny.build(tmp_path_factory.mktemp("bundles") / "tiny").folder


@pytest.fixture(scope="session")
def encoder(bundle: Path) -> Encoder:
    """Of that bundle."""
    return open_encoder(bundle, threads=1)


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
