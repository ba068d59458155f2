"""Captions from file names and from glTF files."""

import json
from pathlib import Path, PurePosixPath

import pytest

from app.ingest.captions import metadata_captions, name_captions, strip_suffixes
from tests.app.house import glb
from tests.files import put


@pytest.mark.parametrize(
    ("name", "bare"),
    [("a/lamp.gltf.glb", "a/lamp"), ("lamp.v2.GLB", "lamp.v2"), ("photo.jpg", "photo"), ("lamp", "lamp")],
)
def test_suffixes_are_no_words(name: str, bare: str) -> None:
    assert str(strip_suffixes(PurePosixPath(name))) == bare


@pytest.mark.parametrize(
    ("name", "captions"),
    [
        ("Food-Bits-1.0/Assets/gltf/kitchenTable_A", ("kitchen table a", "food bits 1 0 kitchen table a")),
        ("holiday/IMG_2034", ("holiday",)),
        ("IMG_2034", ()),
        ("Stühle/ROT7", ("rot 7", "stühle rot 7")),
    ],
)
def test_names_are_split_into_words(name: str, captions: tuple[str, ...]) -> None:
    assert name_captions(Path(name)) == captions


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_a_gltf_says_what_it_is(tmp_path: Path, suffix: str) -> None:
    extras = {"title": "Reading chair KX-42", "license": "CC0", "tags": ["oak"]}
    description = {
        "asset": {"version": "2.0", "extras": extras},
        "nodes": [{"name": "RootNode"}, {"name": "backRest_2"}, {"name": 3}, "odd"],
        "meshes": [{"name": "Cube.001", "extras": {"part": "Q7"}}],
    }
    data = glb(description) if suffix == ".glb" else json.dumps(description).encode()
    path = put(tmp_path / f"a{suffix}", data)
    assert metadata_captions(path) == ("Reading chair KX-42", "oak", "Q7", "back rest 2")
    assert metadata_captions(put(path, data[: len(data) // 2])) == ()
    assert metadata_captions(put(tmp_path / "a.obj", data)) == ()
