"""A bundle takes its place when it is complete: until then, and after a failure, what was there stays."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from multifold.bundle import DESCRIPTION
from multifold.errors import MultifoldError


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A folder to write a bundle into; it becomes `folder` in the end, in the place of an older bundle."""
    folder = folder.resolve()
    if folder.exists() and any(folder.iterdir()) and not (folder / DESCRIPTION).exists():
        raise MultifoldError(f"{folder} holds something that is no bundle; choose another folder")
    aside, older = (folder.with_name(f"{folder.name}.{what}") for what in ("partial", "older"))
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        yield aside
        if folder.exists():
            folder.replace(older)
        aside.replace(folder)
        shutil.rmtree(older, ignore_errors=True)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
