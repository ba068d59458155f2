"""From one machine to many: items into PostgreSQL, pictures into a bucket, however often it is stopped."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.store.blobs import FolderBlobs
from index.store.store import open_blobs
from multifold.bundle.encoder import pictures_of
from multifold.cli import main
from multifold.types import Item
from tests.index.buckets import BucketServer
from tests.index.servers import Server
from tests.index.shots import equal, furnish, held
from tests.index.spaces import SPACE
from tests.index.things import thing
from tests.ports import free_ports

PICTURES = 150
RUN = """
import itertools, os, signal
from index.store.bucket import BucketBlobs
from multifold.cli import main

write, numbers = BucketBlobs.write, itertools.count()

def write_and_die(blobs, key, data):
    if next(numbers) == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    write(blobs, key, data)

BucketBlobs.write = write_and_die
main()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    with Collection.open(tmp_path / "things", SPACE) as collection:
        furnish(collection)
        keys = [collection.blobs.put(rng.bytes(2_000), ".webp") for _ in range(PICTURES)]
        feature = held(collection)["chair"].observations[0].feature
        collection.upsert(
            [Item(f"photo {n}", pictures_of("photo", feature[None], [key]), {}) for n, key in enumerate(keys)]
        )
    return tmp_path / "things"


def command(home: Path, *more: str) -> list[str]:
    return ["index", "migrate", "--data", str(home), *more]


def test_killed_and_called_again(home: Path, s3: BucketServer, server: Server) -> None:
    database, bucket = server.place(), s3.place()
    with Collection.open(home, SPACE) as collection:
        items, version = held(collection), collection.version
    asked = command(home, "--database", database, "--bucket", bucket)
    target = open_blobs(home, bucket)
    killed = subprocess.run([sys.executable, "-c", RUN, *asked], stderr=subprocess.DEVNULL, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert 0 < len(list(target.all())) < PICTURES
    assert main(asked) == 0
    with Collection.open(home.parent / "elsewhere", SPACE, database=database, bucket=bucket) as moved:
        assert equal(held(moved), items)
        assert moved.version == version
        for item in items.values():
            for seen in item.observations:
                assert seen.blob is None or moved.blobs.get(seen.blob)
    with Collection.open(home, SPACE) as former:
        assert equal(held(former), items)


def test_a_collection_that_is_written_is_not_moved_nor_one_onto_another(
    home: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    move = command(home, "--database", place)
    with Collection.open(home, SPACE) as collection:
        items, version = held(collection), collection.version
        assert main(move) == 2
    assert "is being written by" in capsys.readouterr().err
    assert main(move) == 0
    with Collection.open(home, SPACE, database=place) as moved:
        assert equal(held(moved), items)
        assert moved.upsert([thing("new", np.random.default_rng(0))]) == version + 1
        assert moved.blobs.get(str(items["chair"].observations[0].blob)) == b"a picture"
    assert main(move) == 2
    assert "holds a collection already" in capsys.readouterr().err


def test_what_is_there_is_not_sent_again(
    home: Path, s3: BucketServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3.place()
    assert main(command(home, "--bucket", bucket)) == 0
    assert f"{bucket} holds {PICTURES + 1} pictures" in capsys.readouterr().out
    monkeypatch.setattr(FolderBlobs, "read", lambda self, key: pytest.fail(f"{key} is read again"))
    assert main(command(home, "--bucket", bucket)) == 0


def test_a_lost_picture_is_told_and_the_rest_goes(
    home: Path, s3: BucketServer, capsys: pytest.CaptureFixture[str]
) -> None:
    blobs, bucket = FolderBlobs(home / "blobs"), s3.place()
    lost, damaged = sorted(blobs.all())[:2]
    blobs.path(lost).unlink()
    blobs.path(damaged).write_bytes(b"half")
    assert main(command(home, "--bucket", bucket)) == 1
    told = capsys.readouterr()
    assert lost in told.err
    assert damaged in told.err
    assert f"holds {PICTURES - 1} pictures" in told.out


def test_a_place_that_fails_ends_it(
    home: Path, s3: BucketServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{free_ports(1)[0]}")
    assert main(command(home, "--bucket", "s3://shop/x")) == 2
    assert main(command(home)) == 2
    assert "Where to?" in capsys.readouterr().err
