"""The bucket of the pictures: away, full, and back."""

from pathlib import Path

import pytest

from index.store.blobs import BlobError
from index.store.store import open_blobs
from multifold.client import Client
from tests.app.house import png
from tests.app.process import serve
from tests.drills.traffic import Traffic
from tests.index.buckets import BucketServer
from tests.waiting import until

pytestmark = pytest.mark.slow
FEW = 8  # volumes, of 8 MB


def test_the_bucket_is_away_and_full(tmp_path: Path, bundle: Path, s3: BucketServer) -> None:
    place = s3.place()
    with serve(tmp_path / "data", bundle, MULTIFOLD_BUCKET=place) as running, running.client() as client:
        url = str(client.base_url)
        with Traffic(url, png("red")) as traffic:
            s3.stop()
            until(lambda: traffic.refusals["storage"] > 2)
            answers = traffic.answers
            until(lambda: traffic.answers > answers + 5)  # what needs no picture goes on
            s3.start(FEW)
            traffic.more()
            assert set(traffic.refusals) == {"storage"}
            traffic.passed("the bucket is away, and comes back")
        with Traffic(url, png("blue")) as traffic:
            fill(tmp_path, place)
            until(lambda: traffic.refusals["storage"] > 2)
            answers = traffic.answers
            until(lambda: traffic.answers > answers + 5)
            s3.stop()
            s3.start()
            traffic.more()
            assert set(traffic.refusals) == {"storage"}
            traffic.passed("the bucket is full, and gets room")
        with Client(url) as asked:
            for name in traffic.acknowledged:
                (photo,) = (one for one in asked.get(name).observations if one.kind == "photo")
                assert photo.url is not None
                assert client.get(photo.url).content.startswith(b"\x89PNG")


def fill(folder: Path, place: str) -> None:
    """Until it takes no more."""
    blobs = open_blobs(folder, place)
    many = (blobs.put(number.to_bytes(4) * 250_000) for number in range(1000))
    with pytest.raises(BlobError):
        list(many)
