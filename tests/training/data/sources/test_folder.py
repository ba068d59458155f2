"""One's own folder: whatever people put beside each other becomes items, and nothing vanishes in silence."""

import json
from pathlib import Path

import pytest
from PIL import Image

from multifold import manifest
from multifold.cli import main
from multifold.manifest import ManifestEntry
from tests.files import put
from training.data.sources import folder

SHARES = (80, 10, 10)


def picture(path: Path, colour: str = "red") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 16), colour).save(path)
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


def items(root: Path) -> tuple[dict[str, ManifestEntry], list[str]]:
    found = folder.read_folder(root, SHARES)
    return {entry.id: entry for entry in found.entries}, found.problems


def test_files_of_one_name_are_one_item(tmp_path: Path) -> None:
    put(tmp_path / "chairs" / "red.glb")
    picture(tmp_path / "chairs" / "red.JPG")
    put(tmp_path / "chairs" / "red.txt", "a red chair\n\n  a chair, red \na red chair\n")
    put(tmp_path / "lamp.obj")
    put(tmp_path / "lamp.json", json.dumps({"texts": ["a lamp"], "split": "test", "meta": {"price": 3}}))
    put(tmp_path / "vase.ply")
    put(tmp_path / "vase.json", '"a vase"')
    put(tmp_path / ".hidden.glb")
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


def test_what_is_odd_is_told(tmp_path: Path) -> None:
    put(tmp_path / "22.glb")
    put(tmp_path / "22.obj")
    put(tmp_path / "lonely.txt", "a caption of nothing")
    found, problems = items(tmp_path)
    told = "\n".join(problems)
    assert f"{tmp_path}/22.obj: an item has one mesh, and 22.glb is taken" in told
    assert f"left out {tmp_path}/lonely.txt: no mesh or picture has its name" in told
    assert "22 has no captions" in told
    assert set(found) == {"22"}


def test_splits_do_not_depend_on_what_else_is_there_and_keep_like_texts_together(tmp_path: Path) -> None:
    for number in range(100):
        put(tmp_path / f"{number}.glb")
        put(tmp_path / f"{number}.txt", f"thing {number % 50}")
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
    put(root / "whole.obj", CUBE)
    put(root / "broken.obj", "v 0 0\n")
    picture(root / "seen.png")
    put(root / "torn.png", picture(root / "seen.png").read_bytes()[:40])
    for name in ("whole", "broken", "seen", "torn"):
        put(root / f"{name}.txt", f"a {name} thing")
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


def test_names_folders_and_info_stand_in_for_captions(tmp_path: Path) -> None:
    put(tmp_path / "furniture-pack-1-0" / "kitchenCabinet_02.glb")
    picture(tmp_path / "IMG_2044.jpg")
    put(tmp_path / "7" / "a.glb")
    put(tmp_path / "7" / "info.json", json.dumps({"name": "Sofa", "tags": ["soft", "blue"], "size": 3}))
    put(tmp_path / "red-lamp.glb")
    put(tmp_path / "red-lamp.txt", "its own caption")
    found, problems = items(tmp_path)
    assert {name: entry.texts for name, entry in found.items()} == {
        "furniture-pack-1-0/kitchenCabinet_02": ("kitchen cabinet", "kitchen cabinet, furniture pack"),
        "IMG_2044": (),
        "7/a": ("Sofa", "soft, blue"),
        "red-lamp": ("its own caption",),
    }
    assert "2 items without captions: words of names, folders and info.json are used instead" in problems
    assert any("IMG_2044 has no captions" in problem for problem in problems)
