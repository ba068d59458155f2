"""Items on their way into a collection: every kind of picture, thumbnails, and disks that are full."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from app.encoding.observations import ObservationEncoder
from app.ingest.originals import OriginalFiles
from app.ingest.pipeline import ENCODE_BATCH, FIRST_BATCHES, IngestPipeline
from app.ingest.sources import IngestTask
from app.settings import Settings
from index.collection import Collection
from index.store.blobs import BlobError, BlobKey, FolderBlobs
from multifold.bundle.encoder import Encoder
from multifold.bundle.preprocess import decode
from renderers.sandbox import Sandbox
from tests import tiny
from tests.app.conftest import Stored
from tests.app.house import house
from tests.app.ingest.conftest import Take
from tests.app.ingest.files import COLOURS, write_boxes
from tests.files import put

FORMS: dict[str, dict[str, Any]] = {
    "jpeg": {"quality": 95},
    "png": {},
    "webp": {"lossless": True},
    "gif": {"save_all": True, "append_images": [Image.new("RGB", (40, 40), "blue")], "duration": 50},
    "tiff": {"compression": "tiff_lzw", "save_all": True, "append_images": [Image.new("RGB", (9, 9))]},
    "bmp": {},
    "avif": {"quality": 90},
}


@pytest.fixture
def gallery(tmp_path: Path) -> Path:
    """The same red picture in every format, and a photo of a phone."""
    picture = Image.fromarray(tiny.picture("red"))
    (tmp_path / "gallery").mkdir()
    for form, how in FORMS.items():
        picture.save(tmp_path / "gallery" / f"a{form}.{form}", form, **how)
    phone = Path(__file__).parents[2] / "kernel" / "bundle" / "two_colours.heic"
    shutil.copy(phone, tmp_path / "gallery" / "phone.heic")
    return tmp_path / "gallery"


def test_every_kind_of_picture_goes_in_and_is_shown(
    gallery: Path, data: Path, bundle: Path, ingest: Callable[..., int]
) -> None:
    with house(data, bundle) as shop:
        assert ingest(gallery) == 0
        found = {hit["id"]: hit for hit in shop.search(text="red", target="image", limit=20).json()["hits"]}
        assert found.keys() == {f"a{form}" for form in FORMS} | {"phone"}
        scores = [hit["score"] for name, hit in found.items() if name != "phone"]
        assert max(scores) - min(scores) < 0.01  # the first frame, the first page; lossy ones nearly so
        for name, hit in found.items():
            shown = shop.client.get(hit["matched"]["url"])
            kind = {"ajpeg": "jpeg", "phone": "heif"}.get(name, name[1:])
            assert (shown.status_code, shown.headers["content-type"]) == (200, f"image/{kind}")
            assert decode(shown.content).size == ((64, 48) if name == "phone" else (40, 40))


def test_large_photos_get_thumbnails_at_once(tmp_path: Path, take: Take, data: Path) -> None:
    root = put(tmp_path / "things" / "note.txt", "").parent
    Image.new("RGB", (1200, 900), "red").save(root / "large.jpg")
    Image.new("RGB", (1000, 900), "blue").save(root / "not so large.jpg")
    take(root)
    (small,) = (data / "thumbnails").glob("*/*.webp")
    with Image.open(small) as picture:
        assert picture.size == (256, 192)
    assert small.stem == hashlib.sha256((root / "large.jpg").read_bytes()).hexdigest()


def test_views_that_cannot_be_stored_keep_their_item_out(
    tmp_path: Path, take: Take, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, plain = write_boxes(tmp_path), FolderBlobs.put

    def full(self: FolderBlobs, data: bytes, suffix: str = "", *, copy: bool = True) -> BlobKey:
        if suffix == ".webp":
            raise BlobError("the disk takes no more")
        return plain(self, data, suffix, copy=copy)

    monkeypatch.setattr(FolderBlobs, "put", full)
    report = take(manifest)
    assert {problem.name for problem in report.skipped} == {*COLOURS}
    assert {problem.reason for problem in report.skipped} == {"the disk takes no more"}
    assert stored() == {}


def test_the_first_items_are_not_waiting_for_a_whole_batch(
    tmp_path: Path, encoder: Encoder, sandbox: Sandbox
) -> None:
    tasks = [IngestTask(f"{number:02}", (f"thing {number}",)) for number in range(50)]
    settings = Settings(data=tmp_path)
    with (
        Collection.open(tmp_path, encoder) as collection,
        OriginalFiles(collection.blobs, copy=False) as originals,
    ):
        observer = ObservationEncoder(encoder, sandbox, settings)
        pipeline = IngestPipeline(collection, observer, originals, together=ENCODE_BATCH)
        assert [*pipeline.run(tasks)] == [*FIRST_BATCHES, ENCODE_BATCH, ENCODE_BATCH, 3]
        assert [item.id for item in collection.scroll()] == [task.id for task in tasks]
