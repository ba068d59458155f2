"""The one way of an item into a collection, from a request, a folder, a manifest or a rebuild.

    source -> prepared item (pictures decoded, blobs on their way to the disk)
           -> encoded item (observations with features)
           -> written

A request takes these steps for one item. `IngestPipeline` takes them for many: some are drawn and decoded
while others are encoded in batches by several threads, and others written in transactions by one thread. Each
stage is at most a batch or two ahead of the next, so memory does not grow with the number of items.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from app.encoding.observations import MeshData, ObservationEncoder
from app.ingest.sources import IngestTask, ItemSource, ViewCache
from app.ingest.thumbnails import write_thumbnail
from app.settings import Settings
from index.collection import Collection
from index.store.blobs import BlobKey, Blobs, FolderBlobs, key_of
from multifold.bundle.encoder import Encoder, captions_of, pictures_of
from multifold.bundle.preprocess import encode_webp, suffix_of
from multifold.errors import MultifoldError
from multifold.files.folder import FileProblem
from multifold.machine import cores, map_ahead
from multifold.types import Item, Observation, Pixels
from renderers.contracts import Views
from renderers.mesh.formats.mesh_file import content_hash, digest_content
from renderers.messages import RenderedMesh
from renderers.points import PointSample
from renderers.sandbox import Sandbox

WRITE_BATCH = 64  # items that are written together
ENCODE_BATCH = 16  # items that are encoded together
PREPARE_AHEAD = 64  # items that are prepared before they are encoded
LARGE_PHOTO = 1_000_000  # pixels of a photo that is slow to decode: its thumbnail is made at once
DISK_WRITERS = 16  # blobs that are made durable at once: each waits for the disk, which takes many together


@dataclass(frozen=True, eq=False)
class DecodedPicture:
    """A photo or a view as the encoder takes it, and the key of its blob once that is stored."""

    pixels: Pixels
    blob: Future[BlobKey]


@dataclass(frozen=True, eq=False)
class PreparedItem:
    """An item before it is encoded: its texts and decoded pictures, and what is encoded already."""

    id: str
    texts: tuple[str, ...] = ()
    photos: tuple[DecodedPicture, ...] = ()
    views: tuple[DecodedPicture, ...] = ()
    payload: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()  # keys of the mesh and of the files it names
    encoded: tuple[Observation, ...] = ()
    notes: tuple[str, ...] = ()  # of the renderer
    points: PointSample | None = None  # of the mesh, where the encoder reads them

    @property
    def pictures(self) -> tuple[DecodedPicture, ...]:
        return (*self.photos, *self.views)


@dataclass(frozen=True, eq=False)
class EncodedItem:
    """An item ready to be written, and what its sender should know."""

    item: Item
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class WrittenItem(EncodedItem):
    """An item that was written, and the version of the collection with it."""

    version: int = 0


Encoded: TypeAlias = EncodedItem | MultifoldError  # which an item became, each on its own
Written: TypeAlias = WrittenItem | MultifoldError
Outcome: TypeAlias = EncodedItem | FileProblem
ItemWriter: TypeAlias = Callable[[Sequence[EncodedItem]], list[Written]]


class IngestStoppedError(Exception):
    """The one who started an ingest wants it to end; what is not written yet is left out."""


class OriginalFiles:
    """Keeps the originals of one collection, as copies or by reference to their place. For several threads.

    `flush` makes references durable; call it before an item that needs them is written.
    """

    def __init__(self, blobs: Blobs, *, copy: bool, spared: Sequence[Path] = ()) -> None:
        self.blobs, self._copy, self._spared = blobs, copy, spared  # files below `spared` need no copy
        self._places = blobs.places if isinstance(blobs, FolderBlobs) and not copy else None
        self._new: list[tuple[str, Path]] = []
        self._lock = threading.Lock()

    def put(self, data: bytes, suffix: str, path: Path | None = None) -> BlobKey:
        """Keep bytes, which the file at `path` holds if there is one; their key."""
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

    def _refer(self, new: Sequence[tuple[str, Path]]) -> None:
        with self._lock:
            self._new += [(key, path.resolve()) for key, path in new]


class ItemPreparer:
    """Decodes pictures, and stores them on the threads of `disk`; large ones get thumbnails in `home`."""

    def __init__(
        self, observer: ObservationEncoder, originals: OriginalFiles, disk: Executor, home: Path | None = None
    ) -> None:
        self._observer, self._originals, self._disk, self._home = observer, originals, disk, home

    def prepare(
        self, source: ItemSource, drawn: RenderedMesh | None, files: Sequence[MeshData]
    ) -> PreparedItem:
        """An item with its mesh as it was drawn; `files` are originals that are kept with it."""
        photos = tuple(map(self._photo, source.images))
        views, notes = ((), ()) if drawn is None else (tuple(self._views(drawn.views)), drawn.notes)
        keys = tuple(self._originals.put(file.data, file.suffix) for file in files)
        points = None if drawn is None else drawn.points
        return PreparedItem(
            source.id, source.texts, photos, views, source.payload, keys, notes=notes, points=points
        )

    def _photo(self, image: bytes | Path) -> DecodedPicture:
        data, path = (image.read_bytes(), image) if isinstance(image, Path) else (image, None)
        picture = self._observer.picture(data)
        pixels = self._observer.square(picture)
        blob = self._disk.submit(self._originals.put, data, suffix_of(data), path)
        if self._home is not None and picture.width * picture.height > LARGE_PHOTO:
            write_thumbnail(self._home, blob.result(), picture)
        return DecodedPicture(pixels, blob)

    def _views(self, views: Views) -> Iterator[DecodedPicture]:
        put = self._originals.blobs.put
        blobs = [self._disk.submit(put, encode_webp(Image.fromarray(view)), ".webp") for view in views]
        return map(DecodedPicture, self._observer.look_at_views(views), blobs)


def encode_items(observer: ObservationEncoder, batch: Sequence[PreparedItem]) -> list[Encoded]:
    """All pictures and all texts of a batch at once; an error for each item whose blobs cannot be stored."""
    pixels = [picture.pixels for prepared in batch for picture in prepared.pictures]
    pictures = iter(observer.encoder.pixels(np.stack(pixels)) if pixels else ())
    texts = observer.encoder.texts([text for prepared in batch for text in prepared.texts])
    features, cut = iter(texts.features), iter(texts.cut)

    def encode(prepared: PreparedItem) -> Encoded:
        captions = captions_of(prepared.texts, islice(features, len(prepared.texts)))
        warnings = observer.cut_warnings(tuple(islice(cut, len(prepared.texts))))
        of_photos = list(islice(pictures, len(prepared.photos)))
        of_views = list(islice(pictures, len(prepared.views)))
        try:
            photos = pictures_of("photo", of_photos, [photo.blob.result() for photo in prepared.photos])
            views = pictures_of("view", of_views, [view.blob.result() for view in prepared.views])
        except MultifoldError as error:
            return error
        kept, others = (
            [one for one in prepared.encoded if (one.kind == "caption") is said] for said in (True, False)
        )
        points = () if prepared.points is None else (observer.points(prepared.points),)
        observations = (*captions, *kept, *photos, *views, *points, *others)
        item = Item(prepared.id, observations, prepared.payload, prepared.files, prepared.notes)
        return EncodedItem(item, (*prepared.notes, *warnings))

    return [encode(prepared) for prepared in batch]


def write_items(collection: Collection, items: Sequence[EncodedItem]) -> list[Written]:
    """Write items in one transaction or, if one is refused, each on its own, so that the others get in."""
    try:
        version = collection.upsert([encoded.item for encoded in items])
    except MultifoldError as error:
        return [error] if len(items) == 1 else [write_items(collection, [one])[0] for one in items]
    return [WrittenItem(encoded.item, encoded.warnings, version) for encoded in items]


class IngestPipeline:
    """Writes the items of a folder or a manifest; what cannot be read is skipped and reported.

    They are written `together` in so many, by `write`, or else directly; `stop` ends a run.
    """

    def __init__(
        self,
        encoder: Encoder,
        collection: Collection,
        sandbox: Sandbox,
        settings: Settings,
        home: Path | None = None,
        *,
        copy: bool = False,
        write: ItemWriter | None = None,
        together: int = WRITE_BATCH,
        stop: threading.Event | None = None,
    ) -> None:
        home = home or settings.data
        self._put = write or (lambda items: write_items(collection, items))
        self._together, self._stop = together, stop or threading.Event()
        self._collection, self._renderers, self._lanes = collection, sandbox.workers, encoder.lanes
        self._observer = ObservationEncoder(encoder, sandbox, settings)
        self._originals = OriginalFiles(collection.blobs, copy=copy)
        self._disk = ThreadPoolExecutor(DISK_WRITERS)
        self._preparer = ItemPreparer(self._observer, self._originals, self._disk, home)
        self._views = ViewCache(home, encoder.bundle.views)
        self.skipped: list[FileProblem] = []
        self.warnings: list[FileProblem] = []

    def run(self, tasks: Iterable[IngestTask]) -> Iterator[int]:
        """Carry out the tasks; yields how many more are done."""
        with ThreadPoolExecutor(1) as writer, self._disk:
            pending: Future[None] | None = None
            encoded = self.encode(self.prepare(tasks))
            while batch := [one for part in islice(encoded, self._together // ENCODE_BATCH) for one in part]:
                if pending is not None:
                    pending.result()
                self.skipped += [one for one in batch if isinstance(one, FileProblem)]
                pending = writer.submit(self.write, [one for one in batch if isinstance(one, EncodedItem)])
                yield len(batch)
            if pending is not None:
                pending.result()

    def prepare(self, tasks: Iterable[IngestTask]) -> Iterator[PreparedItem | FileProblem]:
        """Items drawn and decoded by many threads and worker processes at once, in order."""
        return map_ahead(self._prepare, tasks, 2 * self._renderers + cores(), PREPARE_AHEAD)

    def encode(self, prepared: Iterator[PreparedItem | FileProblem]) -> Iterator[list[Outcome]]:
        """Items in batches, as many at once as keep the cores busy, in order."""
        batches = iter(lambda: list(islice(prepared, ENCODE_BATCH)), [])
        return map_ahead(self._encode, batches, self._lanes, self._lanes + 1)

    def write(self, items: Sequence[EncodedItem]) -> None:
        self._originals.flush()
        for encoded, outcome in zip(items, self._put(items), strict=True):
            if isinstance(outcome, MultifoldError):
                self.skipped.append(FileProblem(encoded.item.id, str(outcome)))
            else:
                self.warnings += [FileProblem(encoded.item.id, one) for one in outcome.warnings]

    def _prepare(self, task: IngestTask) -> PreparedItem | FileProblem:
        if self._stop.is_set():
            raise IngestStoppedError
        try:
            if task.keeps_pictures and (stored := self._collection.get(task.id)) is not None:
                pictures = tuple(one for one in stored.observations if one.kind != "caption")
                files = self._originals.move(task, stored)
                kept = PreparedItem(task.id, task.texts, payload=task.payload, files=files, encoded=pictures)
                return replace(kept, notes=stored.notes)
            drawn = None if task.mesh is None else self._observer.draw(task.mesh)
            prepared = self._preparer.prepare(task, drawn, ())
            if task.mesh is not None and task.mesh.within is None:
                self._views.put(content_hash(task.mesh.path), [view.blob.result() for view in prepared.views])
            prepared = replace(prepared, files=self._originals.put_mesh(task))
            if task.keeps_captions and (stored := self._collection.get(task.id)) is not None:
                captions = tuple(one for one in stored.observations if one.kind == "caption")
                if stored.texts == task.texts:
                    prepared = replace(prepared, texts=(), encoded=captions)
            task.check_unchanged()
        except (MultifoldError, OSError) as error:
            return FileProblem(task.id, str(error))
        return prepared

    def _encode(self, batch: Sequence[PreparedItem | FileProblem]) -> list[Outcome]:
        ready = [one for one in batch if isinstance(one, PreparedItem)]
        outcomes: list[Outcome] = [one for one in batch if isinstance(one, FileProblem)]
        for prepared, outcome in zip(ready, encode_items(self._observer, ready), strict=True):
            if isinstance(outcome, MultifoldError):
                outcomes.append(FileProblem(prepared.id, str(outcome)))
            else:
                outcomes.append(outcome)
        return outcomes
