"""Blobs keep bytes by their hash: the contract of every place; and what is the bucket's own."""

import hashlib
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from index.collection import Collection
from index.contracts import CollectionLocation
from index.maintenance.compact import compact_collection
from index.maintenance.restore import restore_snapshot
from index.registry import CollectionRegistry, ensure_collection, locate_collection
from index.store.blobs import BlobError, Blobs, DamagedBlobError
from index.store.store import open_blobs
from multifold.cli import main
from tests.index.buckets import BucketServer
from tests.index.shots import SPACE, equal, furnish, held
from tests.ports import free_ports

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


def test_bytes_come_back(blobs: Blobs) -> None:
    assert blobs.put(DATA) == KEY
    assert blobs.put(DATA, ".png") == blobs.put(DATA, ".png") == KEY + ".png"
    assert blobs.get(KEY) == blobs.get(KEY + ".png") == DATA
    assert blobs.exists(KEY)
    assert blobs.put(b"") == hashlib.sha256(b"").hexdigest()
    assert blobs.get(hashlib.sha256(b"").hexdigest()) == b""


def test_a_new_place_is_empty(blobs: Blobs) -> None:
    assert not blobs.exists(KEY)
    assert list(blobs.all()) == []
    assert blobs.size() == 0
    blobs.sweep()
    blobs.remove([KEY])
    with pytest.raises(DamagedBlobError, match=f"no blob {KEY}"):
        blobs.get(KEY)


def test_another_opener_sees_the_same(blobs: Blobs, bucket: str | None, tmp_path: Path) -> None:
    keys = {blobs.put(b"%d" % number, ".bin") for number in range(30)}
    again = open_blobs(tmp_path / "things", bucket)
    assert set(again.all()) == keys
    assert again.size() == sum(len(again.get(key)) for key in keys)


def test_removing(blobs: Blobs) -> None:
    keys = [blobs.put(b"%d" % number) for number in range(5)]
    blobs.remove(keys[1:] + keys[1:2])
    assert list(blobs.all()) == keys[:1]
    with pytest.raises(BlobError, match="no blob"):
        blobs.get(keys[1])


@pytest.mark.parametrize(
    "key", ["", "../x", KEY[:-1], KEY.upper(), KEY + "/..", KEY + ".png\n", "/etc/passwd"]
)
def test_a_bad_key_is_refused(blobs: Blobs, key: str) -> None:
    for ask in (blobs.get, blobs.exists, blobs.read, lambda bad: blobs.write(bad, DATA)):
        with pytest.raises(BlobError, match="no blob key"):
            ask(key)


@pytest.mark.parametrize("suffix", ["png", ".", "/../x", ".PNG", "." + "a" * 17])
def test_a_bad_suffix_is_refused(blobs: Blobs, suffix: str) -> None:
    with pytest.raises(BlobError, match="suffix"):
        blobs.put(DATA, suffix)
    assert list(blobs.all()) == []


def test_damage_is_seen(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs.put(DATA)
    monkeypatch.setattr(type(blobs), "read", lambda self, key: b"another picture")
    with pytest.raises(DamagedBlobError, match="damaged"):
        blobs.get(KEY)


def test_many_threads(blobs: Blobs) -> None:
    many = [b"%d" % (number % 20) for number in range(100)]
    with ThreadPoolExecutor(8) as threads:
        keys = list(threads.map(blobs.put, many))
        assert list(threads.map(blobs.get, keys)) == many


def test_the_bucket_checks_what_it_is_sent(s3: BucketServer, tmp_path: Path) -> None:
    blobs = open_blobs(tmp_path, s3.place())
    blobs.put(DATA)
    with pytest.raises(BlobError, match="does not do its work"):
        blobs.write("0" * 64, b"not what its name says")
    assert not blobs.exists("0" * 64)


@pytest.mark.parametrize("address", ["", "s3://", "s3://B", "http://shop", "s3://shop/a b", "s3://a/b?c"])
def test_an_address_that_is_none(tmp_path: Path, address: str) -> None:
    with pytest.raises(BlobError, match="no address of a bucket"):
        open_blobs(tmp_path, address)


def test_two_prefixes_of_a_bucket_share_nothing(s3: BucketServer, tmp_path: Path) -> None:
    place = s3.place()
    outer, inner = open_blobs(tmp_path, place), open_blobs(tmp_path, f"{place}/collections/c_1")
    outer.put(DATA)
    inner.put(b"another")
    assert list(outer.all()) == [KEY]
    assert not inner.exists(KEY)


def test_wrong_keys_are_told(s3: BucketServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").write_text("[default]\naws_access_key_id = us\naws_secret_access_key = wrong\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    with pytest.raises(BlobError, match=r"does not do its work.*signature"):
        open_blobs(tmp_path, s3.place()).put(DATA)


def test_no_keys_are_told(s3: BucketServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(BlobError, match="credentials"):
        open_blobs(tmp_path, s3.place()).put(DATA)


def test_a_server_that_is_away_is_told(
    tmp_path: Path, s3: BucketServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{free_ports(1)[0]}")
    blobs = open_blobs(tmp_path, s3.place())
    for ask in (lambda: blobs.put(DATA), lambda: blobs.get(KEY), lambda: blobs.exists(KEY), blobs.size):
        with pytest.raises(BlobError, match=r"does not do its work.*Nothing was changed") as caught:
            ask()
        assert "127.0.0.1" not in str(caught.value)
    assert len(caplog.messages) == 1
    assert "127.0.0.1" in caplog.text


def test_a_server_that_hangs_is_given_up(
    tmp_path: Path, s3: BucketServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.store.bucket.ANSWER", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(BlobError, match=r"(?i)time.?out"):
            open_blobs(tmp_path, s3.place()).get(KEY)


def test_a_collection_keeps_its_pictures_in_a_bucket(s3: BucketServer, tmp_path: Path) -> None:
    place = s3.place()
    with Collection.open(tmp_path / "things", SPACE, bucket=place) as collection:
        furnish(collection)
        before, lost = held(collection), collection.blobs.put(b"nobody's")
        assert not (tmp_path / "things" / "blobs").exists()
        collection.snapshot(tmp_path / "things.tar")
    assert compact_collection(CollectionLocation(tmp_path / "things", bucket=place)).blobs == 1
    assert not open_blobs(tmp_path, place).exists(lost)
    verify = ["index", "verify", "--no-index", "--data", str(tmp_path / "things")]
    assert main([*verify, "--bucket", place]) == 0
    assert main(verify) == 1  # without the bucket the pictures are missed
    restore_snapshot(tmp_path / "things.tar", tmp_path / "copy")
    with Collection.open(tmp_path / "copy", SPACE) as copy:
        assert equal(held(copy), before)
        assert copy.blobs.get(str(before["chair"].observations[0].blob)) == b"a picture"


def test_a_dropped_collection_takes_its_pictures_along(s3: BucketServer, tmp_path: Path) -> None:
    home = CollectionLocation(tmp_path, None, s3.place())
    Collection.open(tmp_path, SPACE, bucket=home.bucket).close()
    lies = ensure_collection(home, "more", SPACE.vector_id, "us")
    assert lies == locate_collection(home, "more")
    open_blobs(lies.folder, lies.bucket).put(DATA)
    open_blobs(tmp_path, home.bucket).put(b"main's")
    registry = CollectionRegistry(tmp_path, None, home.bucket)
    registry.clear(registry.drop("more"))
    registry.close()
    assert list(open_blobs(lies.folder, lies.bucket).all()) == []
    assert len(list(open_blobs(tmp_path, home.bucket).all())) == 1
