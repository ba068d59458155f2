"""Where the originals of items are: kept as blobs, or read in place from the folders of the user."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from app.encoding.observations import MeshData, MeshPath
from app.ingest.sources import IngestTask, find_original_mesh
from index.store.blobs import BlobKey, Blobs, FolderBlobs, key_of
from multifold.bundle.preprocess import suffix_of
from multifold.errors import MultifoldError
from multifold.types import Item
from renderers.mesh.formats.mesh_file import digest_content

DISK_WRITERS = 4  # blobs that are made durable at once: each waits for the disk, which takes many together


class OriginalFiles(AbstractContextManager["OriginalFiles"]):
    """Keeps the originals of one collection, as copies or by reference to their place. For several threads.

    Files below the folders `spared` need no copy. `flush` makes references durable; call it before an item
    that needs them is written.
    """

    def __init__(
        self, blobs: Blobs, *, copy: bool, spared: Sequence[Path] = (), writers: int = DISK_WRITERS
    ) -> None:
        self.blobs = blobs
        self._copy = copy
        self._spared = spared
        self._places = blobs.places if isinstance(blobs, FolderBlobs) and not copy else None
        self._new: list[tuple[str, Path]] = []
        self._lock = threading.Lock()
        self._disk = ThreadPoolExecutor(writers)

    def submit(self, data: bytes, suffix: str, path: Path | None = None) -> Future[BlobKey]:
        """Keep bytes as `put` does, on another thread."""
        return self._disk.submit(self.put, data, suffix, path)

    def submit_copy(self, data: bytes, suffix: str) -> Future[BlobKey]:
        """Keep a copy of bytes that are no file of the user's, on another thread."""
        return self._disk.submit(self.blobs.put, data, suffix)

    def put(self, data: bytes, suffix: str, path: Path | None = None) -> BlobKey:
        """Keep bytes, which the file at `path` holds if there is one."""
        if path is not None and self._places is not None:
            key = self.blobs.key(data, suffix)
            self._refer([(key, path)])
            return key
        place = self.blobs.in_place(self.blobs.key(data, suffix)) if self._spared else None
        spared = place is not None and any(place.resolve().is_relative_to(one) for one in self._spared)
        return self.blobs.put(data, suffix, copy=self._copy and not spared)

    def put_mesh(self, task: IngestTask) -> tuple[str, ...]:
        """Keep a task's mesh and the files it names; their keys. A mesh is copied only if it names none."""
        if task.mesh is None:
            return ()
        files = [path for stamp in task.stamps if (path := Path(stamp[0])) not in task.images]
        files = files or list(digest_content(task.mesh.path, within=task.mesh.within).files)
        keys = tuple(map(key_of, files))
        if self._places is not None:
            self._refer(list(zip(keys, files, strict=True)))
            return keys
        return (self.blobs.put(files[0].read_bytes(), keys[0].suffix),) if len(files) == 1 else ()

    def move(self, task: IngestTask, stored: Item) -> tuple[str, ...]:
        """Note the present place of a stored item's originals; the keys of its mesh."""
        if self._places is not None:
            self._refer(list(zip(stored.pictures("photo"), task.images, strict=False)))
        return self.put_mesh(task) or stored.files

    def offer(self, task: IngestTask, images: Sequence[bytes]) -> None:
        """Note where the files of a task are, as far as they can be pictures and meshes at all."""
        with suppress(MultifoldError, OSError):
            for path, data in zip(task.images, images, strict=True):
                self.put(data, suffix_of(data), path)
            self.put_mesh(task)
        self.flush()

    def flush(self) -> None:
        with self._lock:
            new, self._new = self._new, []
        if new and self._places is not None:
            self._places.add(new)

    def __exit__(self, *_: object) -> None:
        self._disk.shutdown()

    def _refer(self, new: Sequence[tuple[str, Path]]) -> None:
        with self._lock:
            self._new += [(key, path.resolve()) for key, path in new]


def find_stored_mesh(blobs: Blobs, home: Path, item: Item) -> MeshData | MeshPath | None:
    """The mesh that an item has its views of: in place, kept as one file, or in the folder of its source."""
    mesh = find_mesh_in_place(blobs, item.files)
    if mesh is not None:
        return mesh
    files = [blobs.get(key) for key in item.files]  # its error names one that is gone
    kept = MeshData(files[0], BlobKey(item.files[0]).suffix) if len(files) == 1 else None
    return kept or find_original_mesh(home, item.payload)


def find_mesh_in_place(blobs: Blobs, files: Sequence[str]) -> MeshPath | None:
    """A mesh in place whose files still have these keys, within the folder that holds them all."""
    if not files or not isinstance(blobs, FolderBlobs):
        return None
    others = [path.parent for key in files[1:] for path in blobs.places.paths(key)]
    for path in blobs.places.paths(files[0]):
        within = Path(os.path.commonpath([path.parent, *others]))
        try:
            contents = digest_content(path, within=within).files
        except (MultifoldError, OSError):
            continue
        if tuple(map(key_of, contents)) == tuple(files):
            return MeshPath(path, within)
    return None


def adopt_originals(target: Blobs, source: Blobs, item: Item) -> None:
    """Give another collection the references to originals of an item that have no copy."""
    if isinstance(target, FolderBlobs) and isinstance(source, FolderBlobs):
        keys = [key for key in (*item.pictures("photo"), *item.files) if not source.path(key).is_file()]
        target.places.add([(key, path) for key in keys for path in source.places.paths(key)])
