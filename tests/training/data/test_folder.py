"""One's own folder: whatever people put beside each other becomes items, and nothing vanishes in silence."""

import json
from pathlib import Path

import pytest
from PIL import Image

from multifold import manifest
from multifold.cli import main
from multifold.manifest import Entry
from training.data.sources import folder
from training.data.sources.found import SourceError

SHARES = (80, 10, 10)


def picture(path: Path, colour: str = "red") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 16), colour).save(path)
    return path


def file(path: Path, content: str | bytes = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


CUBE = """
v -1 -1 -1
v 1 -1 -1
v 1 1 -1
v -1 1 -1
v -1 -1 1
v 1 -1 1
v 1 1 1
v -1 1 1
f 4 3 2 1
f 5 6 7 8
f 1 2 6 5
f 2 3 7 6
f 3 4 8 7
f 4 1 5 8
"""


def items(root: Path) -> tuple[dict[str, Entry], list[str]]:
    found = folder.read(root, SHARES)
    return {entry.id: entry for entry in found.entries}, found.problems


def test_files_of_one_name_are_one_item(tmp_path: Path) -> None:
    file(tmp_path / "chairs" / "red.glb", b"x")
    picture(tmp_path / "chairs" / "red.JPG")
    file(tmp_path / "chairs" / "red.txt", "a red chair\n\n  a chair, red \na red chair\n")
    file(tmp_path / "lamp.obj", b"x")
    file(tmp_path / "lamp.json", json.dumps({"texts": ["a lamp"], "split": "test", "meta": {"price": 3}}))
    file(tmp_path / "vase.ply", b"x")
    file(tmp_path / "vase.json", '"a vase"')
    file(tmp_path / ".hidden.glb", b"x")
    found, problems = items(tmp_path)
    assert set(found) == {"chairs/red", "lamp", "vase"}
    red = found["chairs/red"]
    assert (red.mesh, red.images) == (tmp_path / "chairs/red.glb", (tmp_path / "chairs/red.JPG",))
    assert red.texts == ("a red chair", "a chair, red")
    assert (found["lamp"].split, found["lamp"].meta, found["lamp"].texts) == (
        "test",
        {"price": 3},
        ("a lamp",),
    )
    assert found["vase"].texts == ("a vase",)
    assert problems == []


def test_a_folder_with_captions_is_one_item(tmp_path: Path) -> None:
    for number in range(3):
        picture(tmp_path / "sofa" / f"{number}.png")
    file(tmp_path / "sofa" / "captions.txt", "a sofa")
    found, _ = items(tmp_path)
    assert len(found["sofa"].images) == 3
    assert found["sofa"].texts == ("a sofa",)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_name_files_with_or_without_suffix(tmp_path: Path, delimiter: str) -> None:
    picture(tmp_path / "img" / "a.jpg")
    picture(tmp_path / "img" / "b.jpg")
    rows = [("Filename", "Caption", "split"), ("img/a.jpg", "one, two", "val"), ("img/a", "three", "val")]
    rows += [("img/c.jpg", "nothing there", ""), ("../out.jpg", "outside", ""), ("img/b.jpg", "", "")]
    quoted = "\r\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in rows)
    file(tmp_path / "all.csv", b"\xef\xbb\xbf" + quoted.encode())
    found, problems = items(tmp_path)
    assert found["img/a"].texts == ("one, two", "three")
    assert found["img/a"].split == "val"
    assert sorted(problems) == [
        f"{tmp_path}/all.csv: there is no file ../out.jpg",
        f"{tmp_path}/all.csv: there is no file img/c.jpg",
        "img/b has no captions: it can be searched, not learned from",
    ]


def test_a_table_without_the_columns_is_told(tmp_path: Path) -> None:
    file(tmp_path / "all.csv", "a,b\n1,2\n")
    with pytest.raises(SourceError, match="has the columns a, b; one must be named file or filename"):
        items(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_texts_in_old_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    file(tmp_path / "a.glb", b"x")
    file(tmp_path / "a.txt", "ein schöner Stuhl – für Gäste".encode(encoding))
    assert items(tmp_path)[0]["a"].texts == ("ein schöner Stuhl – für Gäste",)


def test_textures_are_no_views(tmp_path: Path) -> None:
    file(tmp_path / "chair.obj", b"mtllib chair.mtl")
    file(tmp_path / "chair.mtl", "newmtl a\nmap_Kd chair.png\n")
    picture(tmp_path / "chair.png")
    picture(tmp_path / "chair.jpg")
    file(tmp_path / "chair.txt", "a chair")
    assert [path.name for path in items(tmp_path)[0]["chair"].images] == ["chair.jpg"]


def test_what_is_odd_is_told(tmp_path: Path) -> None:
    file(tmp_path / "two.glb", b"x")
    file(tmp_path / "two.obj", b"x")
    file(tmp_path / "two.txt", "two")
    file(tmp_path / "lonely.txt", "a caption of nothing")
    file(tmp_path / "bad.glb", b"x")
    file(tmp_path / "bad.json", "{")
    file(tmp_path / "worse.glb", b"x")
    file(tmp_path / "worse.json", '{"texts": [1, 2]}')
    file(tmp_path / "same.glb", b"x")
    file(tmp_path / "same.json", '{"id": "two", "text": "another two"}')
    found, problems = items(tmp_path)
    told = "\n".join(problems)
    assert "two has several meshes; two.glb is taken, not two.obj" in told
    assert "left out lonely: it has captions, and neither a mesh nor a picture" in told
    assert "bad.json is not JSON" in told
    assert "worse.json: texts must be a list of strings" in told
    assert "the id two stands twice; the second is called two#" in told
    assert len(found) == 4


def test_splits_do_not_depend_on_what_else_is_there_and_keep_like_texts_together(tmp_path: Path) -> None:
    for number in range(100):
        file(tmp_path / f"{number}.glb", b"x")
        file(tmp_path / f"{number}.txt", f"thing {number % 50}")
    first, _ = items(tmp_path)
    for number in range(50):
        assert first[str(number)].split == first[str(number + 50)].split
    assert {entry.split for entry in first.values()} == {"train", "val", "test"}
    (tmp_path / "0.glb").unlink()
    second, _ = items(tmp_path)
    assert all(first[name].split == entry.split for name, entry in second.items())


def test_the_command_leaves_out_what_does_not_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = tmp_path / "things", tmp_path / "made" / "things.jsonl"
    file(root / "whole.obj", CUBE)
    file(root / "broken.obj", "v 0 0\n")
    picture(root / "seen.png")
    file(root / "torn.png", picture(root / "seen.png").read_bytes()[:40])
    for name in ("whole", "broken", "seen", "torn"):
        file(root / f"{name}.txt", f"a {name} thing")
    assert main(["data", "folder", str(root), str(out), "--shares", "100/0/0"]) == 0
    told = capsys.readouterr().out
    assert "train: 2 items, 2 texts" in told
    assert "left out broken: " in told
    assert "left out torn: " in told
    entries = {entry.id: entry for entry in manifest.read(out)}
    assert set(entries) == {"whole", "seen"}
    mesh = entries["whole"].mesh
    assert mesh is not None
    assert mesh.resolve() == root / "whole.obj"
    assert main(["data", "folder", str(root), str(out), "--shares", "80/10"]) == 2
    assert main(["data", "folder", str(tmp_path / "none"), str(out)]) == 2
    assert list(out.parent.iterdir()) == [out]
