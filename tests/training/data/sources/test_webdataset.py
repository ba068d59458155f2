"""Tar shards in and out, with the format's quirks."""

import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from multifold import manifest
from multifold.bundle.bundle import ViewSpec
from multifold.bundle.preprocess import ImageSpec
from multifold.cli import main
from multifold.files import tar_shards
from multifold.files.tar_shards import TarShardError
from multifold.manifest import ManifestEntry
from tests.files import picture_file
from tests.training import small
from tests.training.data.sources.test_folder import CUBE
from training.data.sources import webdataset
from training.data.sources.imported import DatasetError, ImportedDataset
from training.data.views import LazyViews, load_views, training_items
from training.recipes import library


def picture(shade: int) -> bytes:
    return picture_file(Image.new("RGB", (12, 10), (shade, 0, 0)))


def shard(path: Path, files: Mapping[str, bytes | str]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            raw = data.encode() if isinstance(data, str) else data
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            tar.addfile(member, io.BytesIO(raw))
    return path


def read(tmp_path: Path, files: Mapping[str, bytes | str]) -> ImportedDataset:
    return webdataset.unpack_shards([str(shard(tmp_path / "s.tar", files))], tmp_path / "out", (80, 10, 10))


def test_a_key_ends_at_the_first_dot(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {
            "./a.v1/chair.0.png": picture(1),
            "./a.v1/chair.10.png": picture(3),
            "./a.v1/chair.2.PNG": picture(2),
            "./a.v1/chair.txt": "a chair\n\n a red chair ",
            "b.txt": "only words",
            "b.json": '["more words", "only words"]',
        },
    )
    chair, words = found.entries
    assert (chair.id, chair.texts) == ("a.v1/chair", ("a chair", "a red chair"))
    assert [path.read_bytes() for path in chair.images] == [picture(1), picture(2), picture(3)]
    assert words.texts == ("only words", "more words")
    assert not found.problems


def test_quirks_are_told_and_harm_no_other(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {
            "__meta__.json": "{}",
            ".hidden.txt": "no",
            "README": "no suffix",
            "a.txt": b"caf\xe9",
            "a.cls": "7",
            "b.json": '{"caption": "bee", "size": 3, "split": "test", "id": "the-bee"}',
            "c.json": "{torn",
            "d.txt": " \n",
            "a2.txt": "x",
            "b2.json": '{"text": "again", "id": "the-bee"}',
        },
    )
    assert [entry.id for entry in found.entries] == ["a", "the-bee", "a2"]
    assert found.entries[0].texts == ("café",)
    assert (found.entries[1].split, found.entries[1].meta) == ("test", {"size": 3})
    told = "\n".join(found.problems)
    for problem in (
        "no reader for its .cls",
        "c of s.tar: its json is damaged",
        "left out d",
        "occurs twice",
    ):
        assert problem in told


def test_paths_that_would_leave_the_folder_do_not(tmp_path: Path) -> None:
    found = read(tmp_path, {"../../evil.png": picture(1), "/root/evil.png": picture(2)})
    for entry in found.entries:
        assert (tmp_path / "out").resolve() in entry.images[0].resolve().parents
    assert not (tmp_path.parent / "evil.png").exists()


def test_a_shard_that_is_cut_short_names_itself(tmp_path: Path) -> None:
    whole = shard(tmp_path / "s.tar", {"a.png": picture(1), "b.txt": "x" * 5000}).read_bytes()
    (tmp_path / "s.tar").write_bytes(whole[:4000])
    with pytest.raises(DatasetError, match=r"s\.tar is no tar file, or not a whole one"):
        webdataset.unpack_shards([str(tmp_path / "s.tar")], tmp_path / "out", (80, 10, 10))
    torn = whole[:1024] + b"?" * 512 + whole[1536:]  # the header of b.txt
    assert whole[1024:1029] == b"b.txt"
    (tmp_path / "s.tar").write_bytes(torn)
    with pytest.raises(TarShardError, match=r"s\.tar is damaged at byte 1,024, behind a\.png"):
        webdataset.unpack_shards([str(tmp_path / "s.tar")], tmp_path / "out", (80, 10, 10))
    with pytest.raises(DatasetError, match=r"there is no shard .*t-01\.tar"):
        webdataset.find_shards([str(tmp_path / "t-{01..03}.tar")])


def test_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries = []
    for number in range(7):
        (tmp_path / f"{number}.png").write_bytes(picture(number))
        images = (tmp_path / f"{number}.png",) * (number % 3)
        meta = {"n": number, "deep": {"yes": True}}
        entries.append(
            ManifestEntry(f"item.{number}/x", images, texts=(f"nr {number}", "ä, ö"), split="val", meta=meta)
        )
    (tmp_path / "cube.obj").write_text(CUBE, encoding="utf-8")
    entries.append(ManifestEntry("cube", mesh=tmp_path / "cube.obj", texts=("a cube",), split="test"))
    manifest.write(tmp_path / "in.jsonl", entries)
    pattern = str(tmp_path / "shards" / "s-%03d.tar")
    assert main(["data", "to-webdataset", str(tmp_path / "in.jsonl"), pattern, "--items", "3"]) == 0
    written = sorted(path.name for path in (tmp_path / "shards").iterdir())
    assert written == ["s-000.tar", "s-001.tar", "s-002.tar"]
    words = ["data", "webdataset", str(tmp_path / "shards" / "s-{000..002}.tar"), str(tmp_path / "out.jsonl")]
    assert main(words) == 0
    assert "wrote 3 shards" in capsys.readouterr().out
    back = [*manifest.read(tmp_path / "out.jsonl")]
    assert [(e.id, e.texts, e.split, e.meta) for e in back] == [
        (e.id, e.texts, e.split, e.meta) for e in entries
    ]
    for ours, theirs in zip(entries, back, strict=True):
        assert [p.read_bytes() for p in theirs.images] == [p.read_bytes() for p in ours.images]
    assert back[-1].mesh is not None
    assert back[-1].mesh.read_text(encoding="utf-8") == CUBE


def test_a_mesh_that_names_other_files_is_told(tmp_path: Path) -> None:
    (tmp_path / "cube.mtl").write_text("newmtl red\nKd 1 0 0\n", encoding="utf-8")
    (tmp_path / "cube.obj").write_text(f"mtllib cube.mtl\n{CUBE}", encoding="utf-8")
    entry = ManifestEntry("cube", mesh=tmp_path / "cube.obj", texts=("a cube",))
    _, problems = webdataset.write_shards([entry], str(tmp_path / "%02d.tar"), 10)
    assert problems == ["left out the mesh of cube: it names other files; make it a .glb"]
    with pytest.raises(DatasetError, match="gives every shard the same name"):
        webdataset.write_shards([entry], str(tmp_path / "one.tar"), 10)


def test_samples_are_streamed(tmp_path: Path) -> None:
    """The first item is there before a second shard that is damaged has been opened."""
    good = shard(tmp_path / "a.tar", {"x.json": json.dumps("words")})
    (tmp_path / "b.tar").write_bytes(b"no tar")
    stream = webdataset.read_samples([good, tmp_path / "b.tar"])
    assert next(stream).key == "x"
    with pytest.raises(DatasetError):
        next(stream)


def test_what_is_broken_or_missing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unpacked or in place: a picture that does not open, and an item that has none."""
    files: dict[str, bytes | str] = {"a.txt": "a", "a.png": picture(1), "b.txt": "b"}
    files |= {"b.png": b"no picture", "c.txt": "only words"}
    path, out = shard(tmp_path / "s.tar", files), tmp_path / "web.jsonl"
    for words in ([], ["--in-place"]):
        assert main(["data", "webdataset", str(path), str(out), *words]) == 0
        told = capsys.readouterr().out
        assert [entry.id for entry in manifest.read(out)] == ["a", "c"]
        assert "left out b: " in told
        assert "c has no picture: it can be searched, not learned from" in told


STEPS = 6


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of coloured squares and one mesh, and beside them the folder that they unpack into."""
    folder = tmp_path_factory.mktemp("made")
    views, captions = small.pictures()
    entries = []
    for place, (seen, texts) in enumerate(zip(views, captions, strict=True)):
        paths = [folder / f"{place}-{number}.png" for number in range(len(seen) - place % 2)]
        for path, view in zip(paths, seen, strict=False):
            Image.fromarray(view).save(path)
        split = "val" if place % 5 == 4 else "train"
        entries.append(ManifestEntry(f"square {place}", tuple(paths), texts=tuple(texts), split=split))
    (folder / "cube.obj").write_text(CUBE, encoding="utf-8")
    entries.append(ManifestEntry("cube", mesh=folder / "cube.obj", texts=("a cube",), split="train"))
    manifest.write(folder / "made.jsonl", entries)
    shards = str(folder / "shards" / "%02d.tar")
    assert main(["data", "to-webdataset", str(folder / "made.jsonl"), shards, "--items", "5"]) == 0
    assert main(["data", "webdataset", str(folder / "shards" / "*.tar"), str(folder / "unpacked.jsonl")]) == 0
    return folder


def train(data: str | Path, out: Path) -> int:
    wanted = small.recipe(steps=STEPS, views=2, captions=2, log_every=1, save_every=2, warmup=2)
    out.mkdir(exist_ok=True)
    (out.parent / "small.toml").write_text(library.to_toml(wanted), encoding="utf-8")
    changes = ["--set", f"data.manifest={data}", "views.rig=ring3", "views.size=32", "validation.every=3"]
    places = ["--out", str(out), "--cache", str(out.parent / "cache")]
    return main(["train", str(out.parent / "small.toml"), *changes, *places])


def told(folder: Path) -> list[dict[str, float]]:
    """Losses and recalls, step for step."""
    lines = small.told(folder)
    return [{key: line[key] for key in line if key in ("step", "loss") or "R@" in key} for line in lines]


def test_the_index_is_what_unpacking_gives(made: Path) -> None:
    words = [str(made / "shards" / "*.tar"), str(made / "placed.jsonl"), "--in-place"]
    assert main(["data", "webdataset", *words]) == 0
    ours, theirs = ([*manifest.read(made / f"{name}.jsonl")] for name in ("placed", "unpacked"))
    assert not (made / "placed").exists()
    for one, other in zip(ours, theirs, strict=True):
        assert (one.id, one.texts, one.split, one.meta) == (other.id, other.texts, other.split, other.meta)
        places = [*one.images, *([one.mesh] if one.mesh else [])]
        files = [*other.images, *([other.mesh] if other.mesh else [])]
        assert all(tar_shards.is_tar_member(path) for path in places)
        assert [tar_shards.read_bytes(path) for path in places] == [path.read_bytes() for path in files]


def test_every_step_is_that_of_the_folder(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(made / "unpacked.jsonl", tmp_path / "folder") == 0
    (tmp_path / "cache").rename(tmp_path / "other-cache")
    assert train(made / "shards" / "{00..03}.tar", tmp_path / "shards") == 0
    assert told(tmp_path / "shards") == told(tmp_path / "folder")
    assert sum("loss" in line for line in told(tmp_path / "shards")) == STEPS
    assert sum("val/text_to_shape/R@1" in line for line in told(tmp_path / "shards")) == 2
    ours, theirs = (small.weights(tmp_path / name / "checkpoint.pt") for name in ("shards", "folder"))
    assert small.same(ours, theirs)
    assert "indexing 4 shards" in capsys.readouterr().out
    kept = sorted(len(np.load(path)) for path in (tmp_path / "cache").glob("views-*.npy"))
    assert kept == [1, 3]  # the mesh that was drawn, and what is held out; no other picture was unpacked
    assert train(made / "shards" / "{00..03}.tar", tmp_path / "again") == 0
    assert "indexing" not in capsys.readouterr().out


def test_views_are_those_of_the_array(made: Path, tmp_path: Path) -> None:
    main(["data", "webdataset", str(made / "shards" / "*.tar"), str(made / "placed.jsonl"), "--in-place"])
    spec = ViewSpec(rig="ring3", size=32, background="white", up="auto", views=3, renderer="x")
    entries, image = [*manifest.read(made / "placed.jsonl")], ImageSpec(size=16)
    unopened = training_items(entries, spec, image, tmp_path / "cache").views
    assert isinstance(unopened, LazyViews)
    array = load_views(entries, spec, image, tmp_path / "cache")
    assert unopened.shape == array.shape == (17, 3, 16, 16, 3)
    items, views = np.array([16, 0, 1, 16, 5, 0]), np.array([2, 0, 2, 0, 1, 2])
    assert np.array_equal(unopened[items, views], array[items, views])


def test_a_damaged_picture_or_shard_is_named(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made / "shards", tmp_path / "shards")
    path = tmp_path / "shards" / "01.tar"
    (picture, *_) = [one for one in tar_shards.members(path) if one.name.endswith(".png")]
    data = bytearray(path.read_bytes())
    data[picture.offset_data : picture.offset_data + 20] = b"x" * 20
    path.write_bytes(data)
    assert train(tmp_path / "shards" / "*.tar", tmp_path / "out") == 0
    assert f"01.tar/{picture.offset_data}+{picture.size}/{picture.name}" in capsys.readouterr().out
    data[picture.offset : picture.offset + 20] = b"x" * 20
    path.write_bytes(data)
    assert train(tmp_path / "shards" / "*.tar", tmp_path / "other") == 2
    assert "01.tar" in capsys.readouterr().err
