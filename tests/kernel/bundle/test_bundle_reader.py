"""A text reader as a part of a bundle: hashed like the others, without a part in the vectors."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import BundleError
from multifold.bundle.canary import open_encoder
from multifold.bundle.text_reader import TextReaderError, open_text_reader, packaged_reader
from tests import reading, tiny


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.build(tmp_path_factory.mktemp("bundles") / "tiny").folder


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "tiny"))


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    return reading.write_table_reader(tmp_path / "reader")


def test_a_reader_is_a_part_that_changes_no_vector(folder: Path, reader: Path) -> None:
    before = bundles.load(folder)
    (reader / "README.md").write_text("no part of it")
    after = bundles.add_reader(folder, reader)
    assert after == bundles.load(folder)
    assert after.vector_id == before.vector_id
    assert after.bundle_id != before.bundle_id
    names = {"reader/tokenizer.json", "reader/model.safetensors", "reader/config.json"}
    assert {*after.files} - {*before.files} == names
    encoder = open_encoder(folder)
    assert encoder.reader is not None
    assert encoder.reader.id == open_text_reader(reader).id


def test_a_bundle_without_a_reader_has_the_packaged_one(folder: Path) -> None:
    assert bundles.load(folder).reader_folder is None
    assert open_encoder(folder).reader is packaged_reader()


def test_another_reader_takes_the_place_of_the_first(folder: Path, reader: Path, tmp_path: Path) -> None:
    bundles.add_reader(folder, reader)
    bundle = bundles.add_reader(folder, reading.write_sentence_reader(tmp_path / "other"))
    assert not bundle.has("reader/model.safetensors")
    assert bundle.has("reader/model.onnx")
    assert {path.name for path in folder.glob("reader*")} == {"reader"}


def test_weights_beside_a_readers_graph_are_no_part_of_the_vectors(folder: Path, reader: Path) -> None:
    before = bundles.load(folder)
    listed = {**before.files, "reader/model.onnx.data": "0"}
    assert replace(before, files=listed).vector_id == before.vector_id


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors", "config.json"])
def test_a_damaged_reader_is_found(folder: Path, reader: Path, name: str) -> None:
    bundles.add_reader(folder, reader)
    with open(folder / "reader" / name, "ab") as file:
        file.write(b" ")
    with pytest.raises(BundleError, match=f"reader/{name} of bundle tiny is damaged"):
        open_encoder(folder)


def test_what_is_no_reader_leaves_the_bundle_as_it_was(folder: Path, tmp_path: Path) -> None:
    before = bundles.load(folder)
    with pytest.raises(TextReaderError, match="no text reader"):
        bundles.add_reader(folder, tmp_path)
    assert bundles.load(folder) == before


@pytest.mark.parametrize("name", ["reader/../x", "reader/", "other/x", "reader/a/b", "/reader/x"])
def test_a_part_lies_in_the_folder_of_the_reader_alone(folder: Path, name: str) -> None:
    path = folder / bundles.DESCRIPTION_FILE
    raw = json.loads(path.read_text())
    raw["files"][name] = "0"
    path.write_text(json.dumps(raw))
    with pytest.raises(BundleError, match="not a plain file name"):
        bundles.load(folder)
