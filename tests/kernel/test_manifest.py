"""Manifests are read as they were written, and a bad line is named."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multifold.manifest import ManifestEntry, ManifestError, read, write

NAMES = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=8)
WORDS = st.text(st.characters(codec="utf-8"), max_size=30)
PLAIN = st.none() | st.booleans() | st.integers() | WORDS
JSON = st.recursive(PLAIN, lambda part: st.lists(part, max_size=3))


RAW: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "id": WORDS.filter(bool),
        "images": st.lists(NAMES, max_size=2),
        "mesh": st.none() | NAMES,
        "texts": st.lists(WORDS, min_size=1, max_size=3),
        "split": st.none() | st.sampled_from(["train", "val", "test"]),
        "meta": st.dictionaries(NAMES, JSON, max_size=2),
    }
)


def entry_of(raw: Mapping[str, Any], folder: Path) -> ManifestEntry:
    """Built outside the strategies: runtime type checks draw their samples from `random`."""
    images = tuple(folder / "images" / name for name in raw["images"])
    mesh = None if raw["mesh"] is None else folder / f"{raw['mesh']}.glb"
    return ManifestEntry(raw["id"], images, mesh, tuple(raw["texts"]), raw["split"], raw["meta"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(raws=st.lists(RAW, max_size=5, unique_by=lambda raw: str(raw["id"])))
def test_what_is_written_is_read(tmp_path: Path, raws: list[dict[str, Any]]) -> None:
    written = [entry_of(raw, tmp_path) for raw in raws]
    write(tmp_path / "manifest.jsonl", written)
    assert list(read(tmp_path / "manifest.jsonl")) == written


def manifest(folder: Path, *lines: object) -> Path:
    path = folder / "manifest.jsonl"
    written = (line if isinstance(line, str | bytes) else json.dumps(line) for line in lines)
    path.write_bytes(b"".join((one.encode() if isinstance(one, str) else one) + b"\n" for one in written))
    return path


def test_paths_belong_to_the_folder_of_the_manifest(tmp_path: Path) -> None:
    path = manifest(tmp_path, {"id": "a", "images": ["x/a.jpg", "../b.png"], "mesh": "m.glb"})
    (entry,) = read(path)
    assert entry.images == (tmp_path / "x" / "a.jpg", tmp_path / ".." / "b.png")
    assert entry.mesh == tmp_path / "m.glb"
    write(tmp_path / "sub.jsonl", [replace(entry, images=(tmp_path / "deep" / "b.jpg",))])
    written = json.loads((tmp_path / "sub.jsonl").read_text())
    assert written == {"id": "a", "images": ["deep/b.jpg"], "mesh": "m.glb"}


def test_empty_lines_are_skipped_and_splits_are_chosen(tmp_path: Path) -> None:
    lines = [{"id": name, "texts": ["t"], "split": split} for name, split in (("a", "train"), ("b", "test"))]
    path = manifest(tmp_path, "\ufeff", lines[0], "  ", lines[1], {"id": "c", "texts": ["t"]})
    assert [entry.id for entry in read(path)] == ["a", "b", "c"]
    assert [entry.id for entry in read(path, split="test")] == ["b"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", "not a JSON object"),
        ("[" * 100_000, "recursion|nested"),
        ({"id": "b"}, "an image, a mesh or a text"),
        ({"id": "b", "texts": [], "images": []}, "an image, a mesh or a text"),
        ({"texts": ["t"]}, "'id' must be"),
        ({"id": "", "texts": ["t"]}, "'id' must be"),
        ({"id": 7, "texts": ["t"]}, "'id' must be"),
        ({"id": "b", "texts": "t"}, "'texts' must be a list"),
        ({"id": "b", "images": [1]}, "'images' must be a list"),
        ({"id": "b", "mesh": ["m"]}, "'mesh' must be a string"),
        ({"id": "b", "texts": ["t"], "split": 1}, "'split' must be a string"),
        ({"id": "b", "texts": ["t"], "meta": []}, "'meta' must be an object"),
        ({"id": "b", "text": ["t"]}, "unknown field 'text'"),
        ({"id": "a", "texts": ["t"]}, "the id 'a' stands twice"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: object, reason: str) -> None:
    path = manifest(tmp_path, {"id": "a", "texts": ["fine"]}, line)
    with pytest.raises(ManifestError, match=rf"manifest\.jsonl, line 2: .*({reason})"):
        list(read(path))
    with pytest.raises(ManifestError, match="there is no manifest"):
        list(read(tmp_path / "none.jsonl"))
