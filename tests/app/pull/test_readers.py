"""`multifold pull` of text readers: from a hub or a folder, into a folder of their own or into a bundle."""

import json
from pathlib import Path

import pytest

from app.pull.readers import WANTED_FILES
from multifold.bundle import bundle as bundles
from multifold.bundle.text_reader import open_text_reader
from multifold.cli import main
from tests import reading, tiny
from tests.app.pull.hub import COMMIT, Hub, serving


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As the hub has them: with more files than are needed."""
    folder = reading.write_table_reader(tmp_path / "published")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Tiny\n")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(b"large")
    return folder


def test_a_reader_comes_from_a_hub_with_its_origin(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "readers" / "tiny"
    with serving(Hub(folder)) as hub:
        assert main(["pull", "own/tiny", str(target), "--reader", "--hub", hub.url]) == 0
        assert {name for name, _ in hub.asked} == {*WANTED_FILES}
    reader = open_text_reader(target)
    assert reader.id == open_text_reader(folder).id
    assert (reader.origin["revision"], reader.origin["licence"]) == (COMMIT, "apache-2.0")
    assert reader.origin["files"].keys() == {*WANTED_FILES}
    assert f"text reader {reader.id}, {reading.DIM} numbers a text" in capsys.readouterr().out
    assert [path.name for path in target.parent.iterdir()] == ["tiny"]


def test_a_reader_becomes_a_part_of_a_bundle(folder: Path, tmp_path: Path) -> None:
    before = tiny.build(tmp_path / "tiny")
    assert main(["pull", "own", str(before.folder), "--reader", "--from", str(folder)]) == 0
    after = bundles.load(before.folder)
    assert after.vector_id == before.vector_id
    assert after.reader_folder is not None
    reader = open_text_reader(after.reader_folder)
    assert reader.id == open_text_reader(folder).id
    assert reader.origin["licence"] == "mit"
    assert json.loads((folder / "config.json").read_text()) == reader.config


def test_a_file_that_is_not_the_known_one_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    assert main(["pull", "potion-base-8m", str(target), "--from", str(folder)]) == 2
    assert "is not the file that is known" in capsys.readouterr().err
    assert not target.exists()
    assert main(["pull", "potion-base-8m", str(target), "--from", str(folder), "--revision", "other"]) == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", None, "lacks its file model.safetensors"),
        ("tokenizer.json", b"{}", "cannot be used"),
        ("model.safetensors", b"no table", "no file of tables"),
    ],
)
def test_what_cannot_be_read_leaves_the_old_reader(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    message: str,
) -> None:
    target = tmp_path / "target"
    words = ["pull", "own", str(target), "--reader", "--from", str(folder)]
    assert main(words) == 0
    before = open_text_reader(target).id
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert open_text_reader(target).id == before


def test_another_folder_is_not_overwritten(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    assert main(["pull", "own", str(tmp_path / "mine"), "--reader", "--from", str(folder)]) == 2
    assert "holds something that is no text reader" in capsys.readouterr().err


def test_a_repository_without_a_table_is_told(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "model.safetensors").unlink()
    with serving(Hub(folder)) as hub:
        assert main(["pull", "own/tiny", str(tmp_path / "x"), "--reader", "--hub", hub.url]) == 2
    assert "own/tiny has no model.safetensors" in capsys.readouterr().err
