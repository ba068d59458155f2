"""Meshes of folders, and the record of what was drawn."""

from pathlib import Path

import pytest

from multifold.errors import MultifoldError
from renderers.batch import RECORD_FILE, RenderRecord, find_meshes
from tests.files import put


def test_two_meshes_of_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    for name in ("a", "b"):
        put(tmp_path / name / "red.glb", b"a mesh")
    with pytest.raises(MultifoldError, match=r"both be called red\.glb"):
        find_meshes([tmp_path / "a", tmp_path / "b"])
    again = find_meshes([tmp_path / "a", tmp_path / "a" / "red.glb"])
    assert [mesh.path for mesh in again.values()] == [tmp_path / "a" / "red.glb"]


@pytest.mark.parametrize("kept", ["[]", "{", '{"meshes": {"a": {}}}', '{"meshes": {"a": 3}}'])
def test_a_damaged_record_is_named(tmp_path: Path, kept: str) -> None:
    put(tmp_path / RECORD_FILE, kept)
    with pytest.raises(MultifoldError, match=r"views\.json is damaged"):
        RenderRecord.read(tmp_path)
