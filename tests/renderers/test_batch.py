"""Meshes of folders, and the record of what was drawn."""

import argparse
from pathlib import Path

import pytest

from multifold.errors import MultifoldError
from renderers import batch
from renderers.batch import RECORD_FILE
from renderers.commands import render
from tests.renderers.glb import Glb, unlit


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    render.add_arguments(parser)
    return render.run(parser.parse_args([str(word) for word in words]))


def square(folder: Path, name: str, color: tuple[float, ...] = (1, 0, 0, 1)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    glb = Glb()
    glb.square(unlit(glb, color))
    return glb.save(folder, name)


def test_two_meshes_of_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    square(tmp_path / "a", "red.glb")
    square(tmp_path / "b", "red.glb")
    with pytest.raises(MultifoldError, match=r"both be called red\.glb"):
        batch.find_meshes([tmp_path / "a", tmp_path / "b"])
    again = batch.find_meshes([tmp_path / "a", tmp_path / "a" / "red.glb"])
    assert [mesh.path for mesh in again.values()] == [tmp_path / "a" / "red.glb"]


@pytest.mark.parametrize("kept", ["[]", "{", '{"meshes": {"a": {}}}', '{"meshes": {"a": 3}}'])
def test_a_damaged_record_is_named(tmp_path: Path, kept: str) -> None:
    (tmp_path / RECORD_FILE).write_text(kept)
    square(tmp_path, "red.glb")
    with pytest.raises(MultifoldError, match=r"views\.json is damaged"):
        run(tmp_path / "red.glb", "--out", tmp_path)
