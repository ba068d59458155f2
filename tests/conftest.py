"""What several rooms are tested with."""

from collections.abc import Iterator

import pytest

from tests.index.buckets import BucketServer
from tests.index.clusters import MilvusServer
from tests.index.servers import Server


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
