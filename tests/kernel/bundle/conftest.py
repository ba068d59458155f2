"""A copy of the bundle for those who damage it."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def folder(bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundle, tmp_path / "tiny"))
