"""The wall around parsers: what lies in the mesh's folder is open, and nothing else."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from renderers.worker import FileAccessGuard


@pytest.fixture(scope="module")
def guard() -> FileAccessGuard:
    return FileAccessGuard()


def connect() -> None:
    with socket.socket() as one:
        one.connect(("localhost", 9))


def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The mesh's folder, and a file outside."""
    home, secret = tmp_path / "home", tmp_path / "secret"
    home.mkdir()
    secret.write_text("secret")
    (home / "mesh").write_text("mesh")
    (home / "link").symlink_to(secret)
    return home, secret


def test_the_folder_and_pythons_libraries_are_open(guard: FileAccessGuard, tmp_path: Path) -> None:
    home, _ = folders(tmp_path)
    with guard.reading(home):
        assert (home / "mesh").read_text() == "mesh"
        assert Path(os.__file__).read_bytes()


@pytest.mark.parametrize(
    "attempt",
    [
        lambda home: (home.parent / "secret").read_text(),
        lambda home: (home / "link").read_text(),
        lambda home: (home / ".." / "secret").read_text(),
        lambda home: (home / "new").write_text("x"),
        lambda home: os.open(home / "mesh", os.O_RDWR),
        lambda home: os.remove(home / "mesh"),
        lambda home: subprocess.run([sys.executable, "-c", ""]),
        lambda home: connect(),
    ],
)
def test_nothing_else_is(guard: FileAccessGuard, tmp_path: Path, attempt: Callable[[Path], object]) -> None:
    home, _ = folders(tmp_path)
    with guard.reading(home), pytest.raises(PermissionError):
        attempt(home)
    assert (home / "mesh").read_text() == "mesh"
    assert not (home / "new").exists()


def test_afterwards_all_is_as_before(guard: FileAccessGuard, tmp_path: Path) -> None:
    home, secret = folders(tmp_path)
    with guard.reading(home):
        pass
    assert secret.read_text() == "secret"
