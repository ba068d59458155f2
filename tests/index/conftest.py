"""Collections to take snapshots of, and the databases that they may lie in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from index.collection import Collection
from tests.index.servers import Server
from tests.index.shots import SPACE, furnish


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things", SPACE) as opened:
        furnish(opened)
        yield opened


@pytest.fixture
def taken(collection: Collection, tmp_path: Path) -> Path:
    """A snapshot."""
    collection.snapshot(tmp_path / "things.tar")
    return tmp_path / "things.tar"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str | None:
    """Where a collection keeps its items: in its folder, or in a database of their own."""
    if request.param == "sqlite":
        return None
    running: Server = request.getfixturevalue("server")
    return running.place()
