"""Tar shards in and out, with the format's quirks."""

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from multifold import manifest
from multifold.cli import main
from multifold.files.tar_shards import TarShardError
from multifold.manifest import ManifestEntry
from tests.training.data.test_folder import CUBE
from training.data.sources import webdataset
from training.data.sources.imported import DatasetError, ImportedDataset


def picture(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (12, 10), (shade, 0, 0)).save(out, "PNG")
    return out.getvalue()


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
        "nobody reads its .cls",
        "c of s.tar: its json is damaged",
        "left out d",
        "its id stands twice",
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
    assert sorted(path.name for path in (tmp_path / "shards").iterdir()) == [
        "s-000.tar",
        "s-001.tar",
        "s-002.tar",
    ]
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


@given(st.integers(0, 60), st.integers(1, 20), st.integers(0, 5))
def test_a_shuffle_loses_nothing_and_holds_no_more_than_its_buffer(
    count: int, buffer: int, seed: int
) -> None:
    taken = 0

    def counted() -> Iterator[int]:
        nonlocal taken
        for value in range(count):
            taken += 1
            yield value

    given_back = []
    for value in webdataset.shuffle(counted(), buffer, seed):
        given_back.append(value)
        assert taken - len(given_back) <= buffer
    assert sorted(given_back) == list(range(count))
    assert given_back == [*webdataset.shuffle(range(count), buffer, seed)]


def test_what_is_broken_or_missing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unpacked or in place: a picture that does not open, and an item that has none."""
    files: dict[str, bytes | str] = {
        "a.txt": "a",
        "b.png": b"no picture",
        "b.txt": "b",
        "c.txt": "only words",
    }
    files |= {"a.png": picture(1)}
    path, out = shard(tmp_path / "s.tar", files), tmp_path / "web.jsonl"
    for words in ([], ["--in-place"]):
        assert main(["data", "webdataset", str(path), str(out), *words]) == 0
        told = capsys.readouterr().out
        assert [entry.id for entry in manifest.read(out)] == ["a", "c"]
        assert "left out b: " in told
        assert "c has no picture: it can be searched, not learned from" in told
