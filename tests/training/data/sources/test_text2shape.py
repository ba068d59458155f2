"""Text2Shape as its files are: ids under two synsets, pickles of Python 2, meshes that are not there."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from multifold import manifest
from multifold.cli import main
from multifold.manifest import ManifestEntry
from tests.files import put
from training.data.sources import text2shape
from training.data.sources.imported import DatasetError

CHAIR, TABLE = "03001627", "04379243"
HEADER = "id,modelId,description,category,topLevelSynsetId,subSynsetId"
ROWS = [
    f"1,aa,a red chair,Chair,{CHAIR},{CHAIR}",
    f'2,aa,"a chair, red",Chair,{CHAIR},{CHAIR}',
    f"3,aa,a red chair,Chair,{CHAIR},{CHAIR}",
    f"4,bb,a round table,Table,{TABLE},{TABLE}",
    "5,aa,a table that shares an id,Table,4379243,4379243",
    f"6,cc,a chair whose mesh is missing,Chair,{CHAIR},{CHAIR}",
    f"7,dd,,Chair,{CHAIR},{CHAIR}",
]
BROKEN_LINE = f'8,bb,"a table of\nwood.It, and its legs, are brown",Table,{TABLE},{TABLE}'


@pytest.fixture
def shapenet(tmp_path: Path) -> Path:
    root = tmp_path / "ShapeNetCore"
    for name in (f"{CHAIR}/aa/models/model_normalized.obj", f"{TABLE}/bb/model.obj", f"{TABLE}/aa/model.obj"):
        put(root / name, "v 0 0 0\n")
    return root


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    path = tmp_path / "captions.tablechair.csv"
    path.write_text("\n".join([HEADER, *ROWS]), encoding="utf-8")
    return path


def test_a_line_in_a_caption_that_looks_like_a_file_name(captions: Path, shapenet: Path) -> None:
    captions.write_text("\n".join([HEADER, *ROWS, BROKEN_LINE]), encoding="utf-8")
    found, _ = read(captions, shapenet, None)
    texts = ("a round table", "a table of\nwood.It, and its legs, are brown")
    assert found[f"{TABLE}/bb"].texts == texts


def pickled(folder: Path, protocol: int = 2) -> Path:
    """As TriCoLo has them: (word ids, category, model)."""
    folder.mkdir()
    members = {
        "train": [("Chair", "aa"), ("Chair", "cc")],
        "val": [("Table", "bb")],
        "test": [("Table", "aa")],
    }
    for split, names in members.items():
        tuples = [(np.array([1, 2, 0]), category, model) for category, model in names]
        told = pickle.dumps({"caption_tuples": tuples, "caption_matches": {}}, protocol=protocol)
        (folder / f"processed_captions_{split}.p").write_bytes(told)
    return folder


def read(captions: Path, shapenet: Path, splits: Path | None) -> tuple[dict[str, ManifestEntry], list[str]]:
    found = text2shape.read_text2shape(captions, shapenet, splits, (80, 10, 10))
    return {entry.id: entry for entry in found.entries}, found.problems


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_shapes_are_known_by_synset_and_model(
    captions: Path, shapenet: Path, tmp_path: Path, protocol: int
) -> None:
    found, problems = read(captions, shapenet, pickled(tmp_path / "splits", protocol))
    assert {name: entry.split for name, entry in found.items()} == {
        f"{CHAIR}/aa": "train",
        f"{TABLE}/bb": "val",
        f"{TABLE}/aa": "test",
    }
    assert found[f"{CHAIR}/aa"].texts == ("a red chair", "a chair, red", "a red chair")
    assert found[f"{TABLE}/aa"].texts == ("a table that shares an id",)
    assert found[f"{TABLE}/aa"].mesh == shapenet / TABLE / "aa" / "model.obj"
    assert found[f"{CHAIR}/aa"].meta["category"] == "chair"
    assert problems == [f"left out {CHAIR}/cc: its mesh is missing"]


def test_plain_split_files(captions: Path, shapenet: Path, tmp_path: Path) -> None:
    folder = tmp_path / "splits"
    folder.mkdir()
    (folder / "train.txt").write_text(f"{CHAIR}/aa\n", encoding="utf-8")
    (folder / "val.json").write_text(json.dumps([[TABLE, "bb"], ["table", "zz"]]), encoding="utf-8")
    (folder / "test.csv").write_text("modelId,category\naa,Table\n", encoding="utf-8")
    found, problems = read(captions, shapenet, folder)
    assert {name: entry.split for name, entry in found.items()} == {
        f"{CHAIR}/aa": "train",
        f"{TABLE}/bb": "val",
        f"{TABLE}/aa": "test",
    }
    assert f"{TABLE}/zz is in a split, and has no captions" in problems
    (folder / "test.csv").write_text("modelId,category\nbb,Chair\n", encoding="utf-8")
    assert f"left out {TABLE}/aa: no split file names it" in read(captions, shapenet, folder)[1]
    (folder / "val.json").unlink()
    with pytest.raises(DatasetError, match="one file a split, with val in its name; it has 0"):
        read(captions, shapenet, folder)
    (folder / "val.txt").write_text("bb\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"names 'bb'; shapes are named SYNSET/MODEL"):
        read(captions, shapenet, folder)


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (open, ("/dev/null",))


def test_a_pickle_executes_nothing(captions: Path, shapenet: Path, tmp_path: Path) -> None:
    folder = pickled(tmp_path / "splits")
    (folder / "processed_captions_val.p").write_bytes(pickle.dumps({"caption_tuples": [Hostile()]}))
    with pytest.raises(DatasetError, match=r"is no split file of Text2Shape: it wants \w*io\.open"):
        read(captions, shapenet, folder)
    (folder / "processed_captions_val.p").write_bytes(pickle.dumps([1]))
    with pytest.raises(DatasetError, match="it holds no table"):
        read(captions, shapenet, folder)


def test_the_command_tells_what_differs(
    captions: Path, shapenet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, splits = tmp_path / "text2shape.jsonl", pickled(tmp_path / "splits")
    assert main(["data", "text2shape", str(captions), str(shapenet), str(out), "--splits", str(splits)]) == 0
    told = capsys.readouterr().out
    assert "train: 1 of the published 11,921 items, 3 of 59,777 texts" in told
    assert [entry.id for entry in manifest.read(out, "val")] == [f"{TABLE}/bb"]
    assert main(["data", "text2shape", str(captions), str(shapenet), str(out)]) == 0
    assert "splits of our own: numbers cannot be compared" in capsys.readouterr().out
