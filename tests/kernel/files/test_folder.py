"""A folder becomes items: whatever people put beside each other, and nothing vanishes in silence."""

import json
import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import pytest

from multifold.files.folder import FolderContents, FolderError, FolderLayout, ItemUnit, read
from multifold.manifest import ManifestEntry
from tests.files import put

MESHES = (".glb", ".obj", ".ply")


def no_companions(mesh: Path, root: Path) -> Iterable[Path]:
    assert mesh.is_relative_to(root)
    return ()


def found(root: Path, by: ItemUnit = "file") -> FolderContents:
    return read(root, FolderLayout(MESHES, no_companions, by))


def items(root: Path, by: ItemUnit = "file") -> dict[str, ManifestEntry]:
    return {entry.id: entry for entry in found(root, by).entries}


def reasons(root: Path) -> dict[str, str]:
    return {os.path.relpath(problem.name, root): problem.reason for problem in found(root).problems}


def test_files_of_one_name_are_one_item(tmp_path: Path) -> None:
    put(tmp_path / "chairs" / "red.glb")
    put(tmp_path / "chairs" / "red.JPG")
    put(tmp_path / "chairs" / "red.txt", "a red chair\n\n  a chair, red \na red chair\n")
    put(tmp_path / "lamp.obj")
    put(tmp_path / "lamp.json", json.dumps({"texts": ["a lamp"], "split": "test", "meta": {"price": 3}}))
    put(tmp_path / "vase.ply")
    put(tmp_path / "vase.json", '"a vase"')
    put(tmp_path / ".hidden.glb")
    put(tmp_path / ".git" / "thing.glb")
    assert items(tmp_path) == {
        "chairs/red": ManifestEntry(
            "chairs/red",
            (tmp_path / "chairs/red.JPG",),
            tmp_path / "chairs/red.glb",
            ("a red chair", "a chair, red"),
        ),
        "lamp": ManifestEntry("lamp", (), tmp_path / "lamp.obj", ("a lamp",), "test", {"price": 3}),
        "vase": ManifestEntry("vase", (), tmp_path / "vase.ply", ("a vase",)),
    }
    assert found(tmp_path).problems == []


def test_a_folder_with_captions_is_one_item(tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path / "sofa" / f"{number}.png")
    put(tmp_path / "sofa" / "captions.txt", "a sofa")
    put(tmp_path / "lamp.png")
    sofa = items(tmp_path)["sofa"]
    assert (len(sofa.images), sofa.texts) == (3, ("a sofa",))
    assert set(items(tmp_path)) == {"lamp", "sofa"}


def test_folders_can_be_items(tmp_path: Path) -> None:
    put(tmp_path / "top.png")
    put(tmp_path / "sofa" / "front.png")
    put(tmp_path / "sofa" / "model.glb")
    put(tmp_path / "sofa" / "model.txt", "a sofa")
    put(tmp_path / "sofa" / "README.txt", "not a caption")
    sofa = items(tmp_path, "folder")["sofa"]
    assert sofa.mesh == tmp_path / "sofa" / "model.glb"
    assert sofa.images == (tmp_path / "sofa" / "front.png",)
    assert sofa.texts == ("a sofa",)
    assert set(items(tmp_path, "folder")) == {"sofa", tmp_path.name}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_tables_name_files_with_or_without_suffix(tmp_path: Path, delimiter: str) -> None:
    put(tmp_path / "img" / "a.jpg")
    put(tmp_path / "img" / "b.jpg")
    rows = [("Filename", "Caption", "split"), ("img/a.jpg", "one, two", "val"), ("img/a", "three", "val")]
    rows += [("img/c.jpg", "nothing there", ""), ("../out.jpg", "outside", ""), ("img/b.jpg", "", "")]
    quoted = "\r\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in rows)
    put(tmp_path / "all.csv", b"\xef\xbb\xbf" + quoted.encode())
    assert items(tmp_path)["img/a"].texts == ("one, two", "three")
    assert items(tmp_path)["img/a"].split == "val"
    assert [problem.reason for problem in found(tmp_path).problems] == [
        "there is no file img/c.jpg",
        "there is no file ../out.jpg",
    ]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("all.csv", "a,b\n1,2\n", "has the columns a, b; one must be named file or filename"),
        ("bad.json", "{", "it is not JSON"),
        ("bad.json", '{"texts": [1, 2]}', "texts must be a list of strings"),
        ("bad.json", '{"meta": 3}', "'meta' must be an object"),
    ],
)
def test_captions_that_cannot_be_read_cost_no_item(
    tmp_path: Path, name: str, content: str, reason: str
) -> None:
    put(tmp_path / "bad.glb")
    put(tmp_path / name, content)
    assert reason in reasons(tmp_path)[name]
    assert set(items(tmp_path)) == {"bad"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_texts_in_old_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    put(tmp_path / "a.glb")
    put(tmp_path / "a.txt", "ein schöner Stuhl – für Gäste".encode(encoding))
    assert items(tmp_path)["a"].texts == ("ein schöner Stuhl – für Gäste",)


def test_a_caption_belongs_to_a_file_whose_umlaut_is_written_otherwise(tmp_path: Path) -> None:
    composed, apart = (unicodedata.normalize(form, "Stühle") for form in ("NFC", "NFD"))
    put(tmp_path / f"{apart}.png")
    put(tmp_path / f"{composed}.txt", "drei Stühle")
    put(tmp_path / "all.csv", f"file,caption\n{composed}.png,Stühle in einer Reihe\n")
    found_item = ManifestEntry(
        composed, (tmp_path / f"{apart}.png",), texts=("drei Stühle", "Stühle in einer Reihe")
    )
    assert items(tmp_path) == {composed: found_item}
    assert reasons(tmp_path) == {}


def test_what_a_mesh_names_is_no_picture_wherever_it_lies(tmp_path: Path) -> None:
    put(tmp_path / "chair.obj")
    put(tmp_path / "chair.jpg")
    texture = put(tmp_path / "textures" / "wood.png")
    library = put(tmp_path / "chair.mtl")
    result = read(tmp_path, FolderLayout(MESHES, lambda mesh, root: [library, texture]))
    assert result.others == []
    assert [(entry.id, entry.images) for entry in result.entries] == [("chair", (tmp_path / "chair.jpg",))]


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    put(tmp_path / "two.glb")
    put(tmp_path / "two.obj")
    put(tmp_path / "same.glb")
    put(tmp_path / "same.json", '{"id": "two", "text": "another two"}')
    put(tmp_path / "photo.JXL")
    lonely = put(tmp_path / "lonely.txt", "a caption of nothing")
    told = reasons(tmp_path)
    assert "two.glb is taken" in told["two.obj"]
    assert "jxl pictures are not read; save it as JPEG" in told["photo.JXL"]
    assert "the id two stands twice" in told["two.glb"]
    assert found(tmp_path).others == [lonely]
    assert set(items(tmp_path)) == {"two", "two.glb"}


def test_links_are_followed_inside_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    put(tmp_path / "outside" / "secret.png")
    put(root / "real.png")
    (root / "inside.png").symlink_to(root / "real.png")
    (root / "outside.png").symlink_to(tmp_path / "outside" / "secret.png")
    (root / "outside.txt").symlink_to(tmp_path / "outside" / "secret.png")
    (root / "real.txt").symlink_to(tmp_path / "outside" / "secret.png")
    (root / "nowhere.png").symlink_to(root / "gone.png")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "round").symlink_to(root)
    assert set(items(root)) == {"real", "inside"}
    assert items(root)["real"].texts == ()
    told = reasons(root)
    assert "link out of the folder" in told["outside.png"]
    assert "link out of the folder" in told["real.txt"]
    assert "leads nowhere" in told["nowhere.png"]
    assert "not followed" in told["folder"]
    assert "not followed" in told["round"]


def test_a_name_that_is_no_text_is_told(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff.png")).write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe.png")
    assert set(reasons(tmp_path)) == {"b\\xff.png", "pipe.png"}
    assert items(tmp_path) == {}


def test_photos_of_phones_need_their_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "photo.HEIC")
    assert set(items(tmp_path)) == {"photo"}
    monkeypatch.setattr("multifold.files.folder.reads_heif", lambda: False)
    assert items(tmp_path) == {}
    assert "pip install 'multifold[heif]'" in reasons(tmp_path)["photo.HEIC"]


def test_parts_of_a_folder_can_be_asked_for_and_passed_over(tmp_path: Path) -> None:
    for name in ("a.png", "a.glb", "b.png", "deep/c.png", "data/blob.png"):
        put(tmp_path / name)
    put(tmp_path / "a.txt", "the first")
    layout = FolderLayout(MESHES, no_companions, skip=frozenset([tmp_path / "data"]))
    assert [entry.id for entry in read(tmp_path, layout).entries] == ["a", "b", "deep/c"]
    some = read(tmp_path, layout, [tmp_path / "a.png", tmp_path / "deep" / "c.png"]).entries
    assert [(entry.id, entry.texts) for entry in some] == [("a", ("the first",)), ("deep/c", ())]
    assert [entry.id for entry in read(tmp_path, layout, below=tmp_path / "deep").entries] == ["deep/c"]
    with pytest.raises(FolderError, match="there is no folder"):
        found(tmp_path / "none")


def test_of_some_files_nothing_else_is_told(tmp_path: Path) -> None:
    for name in ("red.glb", "red.obj", "blue.glb", "blue.obj", "logo.svg", "notes.doc", "lonely.txt"):
        put(tmp_path / name)
    put(tmp_path / "blue.txt", "a blue box")
    layout = FolderLayout(MESHES, no_companions)
    wanted = read(tmp_path, layout, [tmp_path / "red.glb"])
    assert [entry.id for entry in wanted.entries] == ["red"]
    assert [Path(problem.name).name for problem in wanted.problems] == ["red.obj"]
    assert wanted.others == []
    unread = read(tmp_path, layout, [tmp_path / "logo.svg", tmp_path / "notes.doc"])
    assert [Path(problem.name).name for problem in unread.problems] == ["logo.svg"]
    assert (unread.entries, unread.others) == ([], [tmp_path / "notes.doc"])
    (blue,) = read(tmp_path, layout, [tmp_path / "blue.txt"]).entries  # its caption stands for the item
    assert (blue.id, blue.texts) == ("blue", ("a blue box",))
