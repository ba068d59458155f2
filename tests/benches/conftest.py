"""One bundle for the benchmarks that need one."""

from pathlib import Path

import pytest

from tests import tiny


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny bundle."""
    folder = tmp_path_factory.mktemp("bundles") / "tiny"
    tiny.build(folder)
    return folder
