"""A collection to take snapshots of, and a snapshot."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from index.collection import Collection
from tests.index.shots import furnish
from tests.index.spaces import SPACE


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
