"""The original files of items: kept in place by reference and hash, or copied."""

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from app.ingest.plan import IngestTask
from index.store.blobs import Blobs, FolderBlobs, key_of
from multifold.bundle.preprocess import suffix_of
from multifold.errors import MultifoldError
from multifold.types import Item
from renderers.mesh.formats.mesh_file import digest_content


class OriginalFiles:
    """Keeps them for one collection. Any thread may hand in files.

    `note` makes durable what was kept by reference; call it before an item is written that speaks of it.
    """

    def __init__(self, blobs: Blobs, *, copy: bool) -> None:
        self._blobs, self._lock = blobs, threading.Lock()
        self._places = blobs.places if isinstance(blobs, FolderBlobs) and not copy else None
        self._new: list[tuple[str, Path]] = []

    def photo(self, path: Path, data: bytes) -> str:
        """Keep a photo; its key."""
        if self._places is None:
            return self._blobs.put(data, suffix_of(data))
        key = self._blobs.key(data, suffix_of(data))
        self._keep([(key, path)])
        return key

    def mesh(self, work: IngestTask) -> tuple[str, ...]:
        """Keep a mesh and what it names; their keys. A copy is made of one that is alone."""
        files = _mesh_files(work)
        if self._places is not None:
            keys = tuple(map(key_of, files))
            self._keep(list(zip(keys, files, strict=True)))
            return keys
        return (self._blobs.put(files[0].read_bytes(), key_of(files[0])[64:]),) if len(files) == 1 else ()

    def again(self, work: IngestTask, stored: Item) -> tuple[str, ...]:
        """What is there already lies where the work says now; the keys of its mesh."""
        photos = [one.blob for one in stored.observations if one.kind == "photo"]
        if self._places is not None:
            both = zip(photos, work.images, strict=False)
            self._keep([(key, path) for key, path in both if key is not None])
        return (self.mesh(work) or stored.files) if work.mesh is not None else stored.files

    def offer(self, work: IngestTask, images: Sequence[bytes]) -> None:
        """Note where the files of a work lie, as far as they can be pictures and meshes at all."""
        with suppress(MultifoldError, OSError):
            for path, data in zip(work.images, images, strict=True):
                self.photo(path, data)
            if work.mesh is not None:
                self.mesh(work)
        self.note()

    def note(self) -> None:
        """Write down what was kept by reference until now."""
        with self._lock:
            new, self._new = self._new, []
        if new and self._places is not None:
            self._places.add(new)

    def _keep(self, new: Sequence[tuple[str, Path]]) -> None:
        with self._lock:
            self._new += [(key, path.resolve()) for key, path in new]


def adopt_originals(target: Blobs, source: Blobs, item: Item) -> None:
    """Let another collection know where the originals of an item lie that have no copy."""
    if isinstance(target, FolderBlobs) and isinstance(source, FolderBlobs):
        photos = [one.blob for one in item.observations if one.kind == "photo" and one.blob is not None]
        keys = [key for key in (*photos, *item.files) if not source.path(key).is_file()]
        target.places.add([(key, path) for key in keys for path in source.places.paths(key)])


def find_mesh_in_place(blobs: Blobs, files: Sequence[str]) -> tuple[Path, Path] | None:
    """A mesh whose files still hold these keys where they lie, and the folder that holds them all."""
    if not files or not isinstance(blobs, FolderBlobs):
        return None
    others = [path.parent for key in files[1:] for path in blobs.places.paths(key)]
    for path in blobs.places.paths(files[0]):
        within = Path(os.path.commonpath([path.parent, *others]))
        try:
            found = digest_content(path, within=within).files
        except (MultifoldError, OSError):
            continue
        if tuple(map(key_of, found)) == tuple(files):
            return path, within
    return None


def _mesh_files(work: IngestTask) -> list[Path]:
    """The mesh and the files that it names."""
    assert work.mesh is not None
    if work.stamps:
        return [path for one in work.stamps if (path := Path(one[0])) not in work.images]
    return list(digest_content(work.mesh, within=work.within).files)
