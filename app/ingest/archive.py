"""Items as one ZIP file: their originals, captions and payloads, a folder each, as an ingest reads them."""

import json
import re
from collections.abc import Iterator, Sequence
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from app.ingest.originals import find_mesh_in_place
from index.store.blobs import BlobKey, Blobs, key_of
from multifold.errors import MultifoldError
from multifold.types import Item
from renderers.mesh.formats.mesh_file import digest_content

UNSAFE = re.compile(r'[\x00-\x1f\\:*?"<>|]')
NAME_BYTES = 200  # bytes of a folder's name; file systems take 255, and names of files are a little longer
MISSING = "MISSING.txt"


class ArchiveBuffer:
    """What a ZIP file has written and nobody has taken yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is to be closed."""

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def stream_archive(blobs: Blobs, items: Sequence[Item]) -> Iterator[bytes]:
    """The ZIP file in pieces, one file in memory at a time; its last file lists what cannot be read."""
    buffer = ArchiveBuffer()
    missing = []
    with ZipFile(buffer, "w", ZIP_STORED) as archive:
        for folder, item in zip(_folders(items), items, strict=True):
            for path, key in _files(blobs, folder, item):
                try:
                    archive.writestr(ZipInfo(path), blobs.get(key))
                except MultifoldError as error:
                    missing.append(f"{path}: {error}")
                yield buffer.take()
            notes = {"id": item.id, "texts": item.texts, "meta": dict(item.payload)}
            archive.writestr(ZipInfo(f"{folder}/captions.json"), json.dumps(notes, ensure_ascii=False))
        if missing:
            archive.writestr(ZipInfo(MISSING), "\n".join(missing) + "\n")
    yield buffer.take()


def _folders(items: Sequence[Item]) -> Iterator[str]:
    """A folder for each item by its id, which leads nowhere else; each is another one, whatever the case."""
    taken: set[str] = set()
    for item in items:
        parts = [_shortened(UNSAFE.sub("_", part)).strip(". ") for part in item.id.split("/")]
        wanted = name = "/".join(filter(None, parts)) or "item"
        number = 1
        while name.casefold() in taken:
            number += 1
            name = f"{wanted} ({number})"
        taken.add(name.casefold())
        yield name


def _shortened(name: str) -> str:
    return name.encode()[:NAME_BYTES].decode(errors="ignore")


def _files(blobs: Blobs, folder: str, item: Item) -> Iterator[tuple[str, str]]:
    place = find_mesh_in_place(blobs, item.files) if len(item.files) > 1 else None
    if place is not None and place.within is not None:  # its files name each other
        for file in digest_content(place.path, within=place.within).files:
            yield f"{folder}/{file.relative_to(place.within).as_posix()}", key_of(file)
    else:
        yield from _numbered(folder, item.files)
    yield from _numbered(folder, item.pictures("photo"))


def _numbered(folder: str, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names that sort in the order of the keys."""
    name = folder.rpartition("/")[2]
    digits = len(str(len(keys)))
    for number, key in enumerate(keys, 1):
        yield f"{folder}/{name}{f'-{number:0{digits}}' if len(keys) > 1 else ''}{BlobKey(key).suffix}", key
