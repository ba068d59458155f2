"""Blobs in a folder never leave it, and survive what happens to a disk; see test_bucket.py for all places."""

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.store.blobs import BlobError, FolderBlobs
from multifold import durable

DATA = b"a picture"
KEY = hashlib.sha256(DATA).hexdigest()


def test_bytes_come_back(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "deep" / "blobs")
    assert blobs.put(DATA) == KEY
    assert blobs.put(DATA, ".png") == blobs.put(DATA, ".png") == KEY + ".png"
    assert (blobs.put(DATA, ".png").hash, blobs.put(DATA, ".png").suffix) == (KEY, ".png")
    assert FolderBlobs(tmp_path / "deep" / "blobs").get(KEY) == blobs.path(KEY + ".png").read_bytes() == DATA
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    assert not blobs.exists(KEY)
    with pytest.raises(BlobError, match=KEY):
        blobs.get(KEY)


@pytest.mark.parametrize(
    "key", ["", "../x", KEY[:-1], KEY.upper(), KEY + "/..", KEY + ".png\n", f"{KEY}.", "/etc/passwd"]
)
def test_a_bad_key_is_refused(tmp_path: Path, key: str) -> None:
    for ask in (FolderBlobs(tmp_path).path, FolderBlobs(tmp_path).get, FolderBlobs(tmp_path).exists):
        with pytest.raises(BlobError, match="no blob key"):
            ask(key)


@given(st.text(max_size=80))
def test_no_key_leaves_the_folder(key: str) -> None:
    try:
        path = FolderBlobs(Path("/blobs")).path(key)
    except BlobError:
        return
    assert path.resolve().is_relative_to("/blobs")


@pytest.mark.parametrize("suffix", ["png", ".", "/../x", ".PNG", "." + "a" * 17])
def test_a_bad_suffix_is_refused(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(BlobError, match="suffix"):
        FolderBlobs(tmp_path).put(DATA, suffix)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_blob_is_not_served(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    blobs.path(blobs.put(DATA)).write_bytes(b"another picture")
    with pytest.raises(BlobError, match="damaged"):
        blobs.get(KEY)


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


def test_bytes_are_synced_before_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def sync(handle: int) -> None:
        order.append("sync")
        fsync(handle)

    def name(self: Path, target: Path) -> Path:
        order.append("name")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", name)
    with durable.replace_file(tmp_path / "file") as out:
        out.write(DATA)
    assert order == ["sync", "name", "sync"]
