"""Small pictures for grids, made on first request or during an ingest; their folder may be deleted."""

from pathlib import Path

from PIL import Image

from index.store.blobs import Blobs, check_key
from multifold import durable
from multifold.bundle.preprocess import decode, encode_webp

LONGER_SIDE = 256  # pixels of the longer side
QUALITY = 82  # of WebP
FOLDER = "thumbnails"


def read_thumbnail(home: Path, blobs: Blobs, key: str, max_pixels: int) -> bytes:
    try:
        return _path(home, key).read_bytes()
    except FileNotFoundError:
        return write_thumbnail(home, key, decode(blobs.get(key), max_pixels))


def write_thumbnail(home: Path, key: str, picture: Image.Image) -> bytes:
    """Make it of a decoded picture, which becomes the small one."""
    path = _path(home, key)
    made = make_thumbnail(picture)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write_file(path, made)
    except OSError:  # a full disk or a folder that is not ours: it is made again next time
        pass
    return made


def make_thumbnail(picture: Image.Image) -> bytes:
    picture.thumbnail((LONGER_SIDE, LONGER_SIDE), Image.Resampling.BICUBIC, reducing_gap=2.0)
    return encode_webp(picture, QUALITY)


def _path(home: Path, key: str) -> Path:
    checked = check_key(key)
    return home / FOLDER / checked[:2] / f"{checked.hash}.webp"
