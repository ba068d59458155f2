"""`multifold index` on one collection, in a folder or in a database."""

from pathlib import Path

import pytest

from index.contracts import CollectionLocation
from tests.index.commands.shell import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """In a folder."""
    return Shell(CollectionLocation(tmp_path / "data"), capsys)


@pytest.fixture
def shared(tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """In a database, from a folder that may be empty."""
    return Shell(CollectionLocation(tmp_path / "data", place), capsys)


@pytest.fixture(params=["shell", "shared"])
def either(request: pytest.FixtureRequest) -> Shell:
    found: Shell = request.getfixturevalue(request.param)
    return found
