"""Blobs keep bytes by their hash, in a folder and in a bucket alike; and what is the folder's own."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.store.blobs import BlobError, Blobs, DamagedBlobError, FolderBlobs
from index.store.store import open_blobs
from multifold import durable
from tests.index.buckets import BucketServer

DATA = b"a picture"
KEY = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(params=["folder", "bucket"])
def bucket(request: pytest.FixtureRequest) -> str | None:
    if request.param == "folder":
        return None
    running: BucketServer = request.getfixturevalue("s3")
    return running.place()


@pytest.fixture
def blobs(tmp_path: Path, bucket: str | None) -> Blobs:
    return open_blobs(tmp_path / "things", bucket)


def test_bytes_come_back_to_whoever_opens_the_place(blobs: Blobs, bucket: str | None, tmp_path: Path) -> None:
    assert (blobs.put(DATA), blobs.put(DATA, ".png")) == (KEY, KEY + ".png")
    key = blobs.put(DATA, ".png")
    assert (key.hash, key.suffix) == (KEY, ".png")
    assert blobs.get(KEY) == blobs.get(key) == DATA
    assert blobs.get(blobs.put(b"")) == b""
    again = open_blobs(tmp_path / "things", bucket)
    assert set(again.all()) == {KEY, key, hashlib.sha256(b"").hexdigest()}
    assert again.size() == 2 * len(DATA)


def test_a_new_place_is_empty(blobs: Blobs) -> None:
    assert not blobs.exists(KEY)
    assert (list(blobs.all()), blobs.size()) == ([], 0)
    blobs.sweep()
    blobs.remove([KEY])
    with pytest.raises(DamagedBlobError, match=f"no blob {KEY}"):
        blobs.get(KEY)


def test_what_is_removed_is_gone(blobs: Blobs) -> None:
    keys = [blobs.put(b"%d" % number) for number in range(5)]
    blobs.remove(keys[1:] + keys[1:2])
    assert list(blobs.all()) == keys[:1]
    with pytest.raises(BlobError, match="no blob"):
        blobs.get(keys[1])


def test_a_bad_key_or_suffix_is_refused(blobs: Blobs) -> None:
    bad = ("", "../x", KEY[:-1], KEY.upper(), KEY + "/..", KEY + ".png\n", f"{KEY}.", "/etc/passwd")
    for key in bad:
        for ask in (blobs.get, blobs.exists, blobs.read, lambda bad: blobs.write(bad, DATA)):
            with pytest.raises(BlobError, match="no blob key"):
                ask(key)
    for suffix in ("png", ".", "/../x", ".PNG", "." + "a" * 17):
        with pytest.raises(BlobError, match="suffix"):
            blobs.put(DATA, suffix)
    assert list(blobs.all()) == []


@given(st.text(max_size=80))
def test_no_key_leaves_the_folder(key: str) -> None:
    try:
        path = FolderBlobs(Path("/blobs")).path(key)
    except BlobError:
        return
    assert path.resolve().is_relative_to("/blobs")


def test_damage_is_seen(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs.put(DATA)
    monkeypatch.setattr(type(blobs), "read", lambda self, key: b"another picture")
    with pytest.raises(DamagedBlobError, match="damaged"):
        blobs.get(KEY)


def test_many_threads(blobs: Blobs) -> None:
    many = [b"%d" % (number % 20) for number in range(60)]
    with ThreadPoolExecutor(8) as threads:
        keys = list(threads.map(blobs.put, many))
        assert list(threads.map(blobs.get, keys)) == many


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / KEY[:2]).mkdir()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BlobError, match=r"No space left on device\. Nothing was changed"):
        FolderBlobs(tmp_path).put(DATA)
    assert not FolderBlobs(tmp_path).exists(KEY)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_a_killed_writer_left_is_swept(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    path = blobs.path(blobs.put(DATA))
    left = path.with_name(f"{durable.TEMPORARY_PREFIX}0123")
    left.write_bytes(b"half a pic")
    blobs.sweep()
    assert not left.exists()
    assert blobs.get(KEY) == DATA
