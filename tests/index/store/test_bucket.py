"""What is a bucket's own: its address, its keys, a server that fails, and collections with pictures there."""

import hashlib
import socket
from pathlib import Path

import pytest

from index.collection import Collection
from index.contracts import CollectionLocation
from index.maintenance.compact import compact_collection
from index.maintenance.restore import restore_snapshot
from index.registry import CollectionRegistry, ensure_collection, locate_collection
from index.store.blobs import BlobError
from index.store.bucket import MANNERS
from index.store.store import open_blobs
from multifold.cli import main
from tests.index.buckets import BucketServer
from tests.index.shots import equal, furnish, held
from tests.index.spaces import SPACE
from tests.ports import free_ports

DATA = b"a picture"
KEY = hashlib.sha256(DATA).hexdigest()


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


@pytest.mark.parametrize(
    ("keys", "said"), [("wrong", r"does not do its work.*signature"), ("", "credentials")]
)
def test_keys_that_are_wrong_or_missing_are_told(
    s3: BucketServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str, said: str
) -> None:
    if keys:
        (tmp_path / "keys").write_text(f"[default]\naws_access_key_id = us\naws_secret_access_key = {keys}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    with pytest.raises(BlobError, match=said):
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
    monkeypatch.setitem(MANNERS, "read_timeout", 0.2)
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
    at = ensure_collection(home, "more", SPACE.vector_id, "us")
    assert at == locate_collection(home, "more")
    open_blobs(at.folder, at.bucket).put(DATA)
    open_blobs(tmp_path, home.bucket).put(b"main's")
    registry = CollectionRegistry(tmp_path, None, home.bucket)
    registry.clear(registry.drop("more"))
    registry.close()
    assert list(open_blobs(at.folder, at.bucket).all()) == []
    assert len(list(open_blobs(tmp_path, home.bucket).all())) == 1
