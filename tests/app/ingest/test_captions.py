"""Captions from file names and from glTF files."""

import json
from pathlib import Path, PurePosixPath

import pytest

from app.ingest.captions import NO_WORDS, MeshWords, name_captions, read_mesh_words, strip_suffixes
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
        ("1093737381b313cd49ff", ()),  # a code, no words
        ("lamps/f3a9-77bb-0c1d", ("lamps",)),
        ("decade facade", ("decade facade",)),
    ],
)
def test_names_are_split_into_words(name: str, captions: tuple[str, ...]) -> None:
    assert name_captions(Path(name)) == captions


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_a_gltf_says_what_it_is(tmp_path: Path, suffix: str) -> None:
    extras = {"title": "Reading chair KX-42", "license": "CC0", "tags": ["oak"]}
    description = {
        "asset": {"version": "2.0", "extras": extras},
        "nodes": [
            {"name": "RootNode"},
            {"name": "backRest_2"},
            {"name": "backRest_left.003"},
            {"name": 3},
            "odd",
        ],
        "meshes": [{"name": "Cube.001", "extras": {"part": "Q7"}}, {"name": "f3a977bb-0c1d22"}],
    }
    data = glb(description) if suffix == ".glb" else json.dumps(description).encode()
    path = put(tmp_path / f"a{suffix}", data)
    assert read_mesh_words(path) == MeshWords(("Reading chair KX-42", "oak", "Q7"), "back rest")
    assert read_mesh_words(put(path, data[: len(data) // 2])) == NO_WORDS
    assert read_mesh_words(put(tmp_path / "a.obj", data)) == NO_WORDS
