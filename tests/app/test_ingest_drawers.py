"""Processes that draw start when there is something to draw, and while files are still compared."""

from pathlib import Path

import pytest

from app.ingest.run import LazySandbox
from app.ingest.sources import ContentCache
from tests.waiting import PATIENCE

TRIANGLE = "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 {}\n3 0 1 2\n"


@pytest.fixture
def meshes(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}.off" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_text(TRIANGLE.format(number))
    return paths


def looked_at(meshes: list[Path], drawers: LazySandbox, contents: ContentCache) -> None:
    for mesh in drawers.watching(meshes, contents):
        contents.of(mesh)


def test_new_meshes_start_them_once(meshes: list[Path]) -> None:
    with LazySandbox(2, PATIENCE) as drawers, ContentCache(None) as contents:
        looked_at(meshes, drawers, contents)
        early = drawers.for_meshes(1)
        assert early.workers == 2
        assert drawers.for_meshes(3) is early
        assert early.render(meshes[0]).shape[0] == 6


def test_meshes_that_are_known_start_none(meshes: list[Path], tmp_path: Path) -> None:
    for _ in range(2):
        with (
            LazySandbox(2, PATIENCE) as drawers,
            ContentCache(tmp_path / "contents.sqlite", settled=0) as contents,
        ):
            looked_at(meshes, drawers, contents)
            started = drawers.for_meshes(0).workers
    assert started == 0


def test_few_meshes_start_few(meshes: list[Path]) -> None:
    with LazySandbox(8, PATIENCE) as drawers, ContentCache(None) as contents:
        looked_at(meshes, drawers, contents)
        assert drawers.for_meshes(3).workers == 3
