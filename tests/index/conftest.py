"""The databases that a collection may lie in, and an empty collection in each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from index.collection import Collection
from tests.index.servers import Server
from tests.index.spaces import SPACE


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str | None:
    """Where a collection keeps its items: in its folder, or in a database of their own."""
    if request.param == "sqlite":
        return None
    running: Server = request.getfixturevalue("server")
    return running.place()


@pytest.fixture
def place(server: Server) -> str:
    """The address of an empty database."""
    return server.place()


@pytest.fixture
def collection(tmp_path: Path, database: str | None) -> Iterator[Collection]:
    """An empty one, in the folder `things`."""
    with Collection.open(tmp_path / "things", SPACE, database=database) as opened:
        yield opened
