"""What several rooms are tested with."""

from collections.abc import Iterator

import pytest

from tests.index.servers import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """PostgreSQL; tests that ask for it are skipped where it is not installed."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra 'cluster')")
    running = Server()
    yield running
    running.remove()
