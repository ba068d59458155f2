"""The one way of an item into a collection, from a request, a folder, a manifest or a rebuild.

    source -> prepared item (pictures decoded, blobs on their way to the disk)
           -> encoded item (observations with features)
           -> written

`make_item` takes the first two steps for one item, whose mesh was drawn before. `IngestPipeline` takes them
all for many: some are drawn and decoded while others are encoded in batches by several threads, and others
written in transactions by one thread. Each stage is at most a batch or two ahead of the next, so memory does
not grow with the number of items.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, islice, repeat, takewhile
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from app.encoding.observations import ObservationEncoder
from app.ingest.caches import ViewCache
from app.ingest.new_items import check_item_id
from app.ingest.originals import OriginalFiles
from app.ingest.sources import IngestTask, ItemSource
from app.ingest.thumbnails import write_thumbnail
from index.collection import Collection
from index.store.blobs import BlobKey
from multifold.bundle.encoder import captions_of, pictures_of
from multifold.bundle.preprocess import encode_webp, suffix_of
from multifold.errors import MultifoldError
from multifold.files.folder import FileProblem
from multifold.machine import cores, map_ahead
from multifold.payload import MEASURED
from multifold.types import Feature, Item, Observation, Pixels, Side
from renderers.mesh.formats.mesh_file import content_hash
from renderers.orders import RenderedMesh
from renderers.points import PointSample

WRITE_BATCH = 64  # items that are written together
ENCODE_BATCH = 16  # items that are encoded together
FIRST_BATCHES = (1, 2, 4, 8)  # the first of a run are smaller, so that something is seen soon
PREPARE_AHEAD = 64  # items that are prepared before they are encoded
LARGE_PHOTO = 1_000_000  # pixels of a photo that is slow to decode: its thumbnail is made at once


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
    features: Mapping[Side, Sequence[Feature]] = field(default_factory=dict)  # that it brings

    def brought(self, side: Side) -> Sequence[Feature]:
        """Features of its first captions or photos, and further ones that have no text or picture."""
        return self.features.get(side, ())

    @property
    def unread(self) -> tuple[str, ...]:
        return self.texts[len(self.brought("text")) :]

    @property
    def unseen(self) -> tuple[DecodedPicture, ...]:
        return (*self.photos[len(self.brought("image")) :], *self.views)


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


def prepare_item(
    observer: ObservationEncoder,
    originals: OriginalFiles,
    source: ItemSource,
    drawn: RenderedMesh | None,
    *,
    thumbnails: bool = False,
) -> PreparedItem:
    """Decode the pictures of an item whose mesh was drawn; with `thumbnails`, large photos get theirs now."""

    def decode(image: bytes | Path) -> DecodedPicture:
        data, path = (image.read_bytes(), image) if isinstance(image, Path) else (image, None)
        picture = observer.picture(data)
        pixels = observer.square(picture)
        blob = originals.submit(data, suffix_of(data), path)
        if thumbnails and picture.width * picture.height > LARGE_PHOTO:
            write_thumbnail(originals.blobs.home, blob.result(), picture)
        return DecodedPicture(pixels, blob)

    prepared = PreparedItem(
        source.id,
        source.texts,
        tuple(map(decode, source.images)),
        payload={key: value for key, value in source.payload.items() if key != MEASURED},
        files=tuple(originals.put(file.data, file.suffix) for file in source.files),
        features={side: observer.check_features(side, some) for side, some in source.vectors.items()},
    )
    if drawn is None:
        return prepared
    blobs = [originals.submit_copy(encode_webp(Image.fromarray(view)), ".webp") for view in drawn.views]
    views = tuple(map(DecodedPicture, observer.look_at_views(drawn.views), blobs))
    payload = {**prepared.payload, MEASURED: dict(drawn.report.facts)}
    return replace(prepared, payload=payload, views=views, notes=drawn.report.notes, points=drawn.points)


def encode_items(observer: ObservationEncoder, batch: Sequence[PreparedItem]) -> list[Encoded]:
    """All pictures and all texts of a batch at once; an error for each item whose blobs cannot be stored."""
    pixels = [picture.pixels for prepared in batch for picture in prepared.unseen]
    pictures = iter(observer.encoder.pixels(np.stack(pixels)) if pixels else ())
    texts = observer.encoder.texts([text for prepared in batch for text in prepared.unread])
    features, cut = iter(texts.features), iter(texts.cut)

    def encode(prepared: PreparedItem) -> Encoded:
        count = len(prepared.unread)
        captions = captions_of(prepared.texts, [*prepared.brought("text"), *islice(features, count)])
        warnings = observer.cut_warnings(tuple(islice(cut, count)))
        rest = len(prepared.unseen) - len(prepared.views)
        of_photos = [*prepared.brought("image"), *islice(pictures, rest)]
        of_views = [*islice(pictures, len(prepared.views)), *prepared.brought("shape")]
        try:
            photos = pictures_of("photo", of_photos, [photo.blob.result() for photo in prepared.photos])
            views = pictures_of("view", of_views, [view.blob.result() for view in prepared.views])
        except MultifoldError as error:
            return error
        kept = [one for one in prepared.encoded if one.kind == "caption"]
        others = [one for one in prepared.encoded if one.kind != "caption"]
        points = () if prepared.points is None else (observer.points(prepared.points),)
        observations = (*captions, *kept, *photos, *views, *points, *others)
        item = Item(prepared.id, observations, prepared.payload, prepared.files, prepared.notes)
        return EncodedItem(item, (*prepared.notes, *warnings))

    return [encode(prepared) for prepared in batch]


def encode_item(observer: ObservationEncoder, prepared: PreparedItem) -> EncodedItem:
    """One item alone; what is wrong with it is raised."""
    (encoded,) = encode_items(observer, [prepared])
    if isinstance(encoded, MultifoldError):
        raise encoded
    return encoded


def make_item(
    observer: ObservationEncoder, originals: OriginalFiles, source: ItemSource, drawn: RenderedMesh | None
) -> EncodedItem:
    """An item ready to be written, of its source and its mesh as it was drawn."""
    with originals:
        return encode_item(observer, prepare_item(observer, originals, source, drawn))


def write_items(collection: Collection, items: Sequence[EncodedItem]) -> list[Written]:
    """Write items in one transaction or, if one is refused, each on its own, so that the others get in."""
    try:
        version = collection.upsert([encoded.item for encoded in items])
    except MultifoldError as error:
        return [error] if len(items) == 1 else [write_items(collection, [one])[0] for one in items]
    return [WrittenItem(encoded.item, encoded.warnings, version) for encoded in items]


class IngestPipeline:
    """Writes the items of a folder or a manifest; what cannot be read is skipped and reported.

    `write` writes up to `together` of them at a time; by default they go into the collection itself. A run
    ends when `stop` is set.
    """

    def __init__(
        self,
        collection: Collection,
        observer: ObservationEncoder,
        originals: OriginalFiles,
        *,
        write: ItemWriter | None = None,
        together: int = WRITE_BATCH,
        stop: threading.Event | None = None,
    ) -> None:
        self._collection = collection
        self._observer = observer
        self._originals = originals
        self._put = write or (lambda items: write_items(collection, items))
        self._together = together
        self._stop = stop or threading.Event()
        self._views = ViewCache(originals.blobs.home, observer.encoder.bundle.views)
        self.skipped: list[FileProblem] = []
        self.warnings: list[FileProblem] = []

    def run(self, tasks: Iterable[IngestTask]) -> Iterator[int]:
        """Carry out the tasks; yields how many more are done."""
        with ThreadPoolExecutor(1) as writer:
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
        return map_ahead(self._prepare, tasks, 2 * self._observer.renderers + cores(), PREPARE_AHEAD)

    def encode(self, prepared: Iterator[PreparedItem | FileProblem]) -> Iterator[list[Outcome]]:
        """Items in batches, as many at once as keep the cores busy, in order."""
        lanes = self._observer.encoder.lanes
        sizes = chain(FIRST_BATCHES, repeat(ENCODE_BATCH))
        batches = takewhile(len, (list(islice(prepared, size)) for size in sizes))
        return map_ahead(self._encode, batches, lanes, lanes + 1)

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
            check_item_id(task.id)
            if task.keeps_pictures and (stored := self._collection.get(task.id)) is not None:
                return self._keep_pictures(task, stored)
            prepared = self._draw(task)
            if task.keeps_captions and (stored := self._collection.get(task.id)) is not None:
                captions = tuple(one for one in stored.observations if one.kind == "caption")
                if stored.texts == task.texts:
                    prepared = replace(prepared, texts=(), encoded=captions)
            task.check_unchanged()
        except (MultifoldError, OSError) as error:
            return FileProblem(task.id, str(error))
        return prepared

    def _keep_pictures(self, task: IngestTask, stored: Item) -> PreparedItem:
        """A stored item with other texts, another payload or another place."""
        return PreparedItem(
            task.id,
            task.texts,
            payload=task.payload,
            files=self._originals.move(task, stored),
            encoded=tuple(one for one in stored.observations if one.kind != "caption"),
            notes=stored.notes,
        )

    def _draw(self, task: IngestTask) -> PreparedItem:
        drawn = None if task.mesh is None else self._observer.draw(task.mesh)
        prepared = prepare_item(self._observer, self._originals, task, drawn, thumbnails=True)
        if task.mesh is not None and task.mesh.within is None:
            self._views.put(content_hash(task.mesh.path), [view.blob.result() for view in prepared.views])
        return replace(prepared, files=self._originals.put_mesh(task))

    def _encode(self, batch: Sequence[PreparedItem | FileProblem]) -> list[Outcome]:
        ready = [one for one in batch if isinstance(one, PreparedItem)]
        outcomes: list[Outcome] = [one for one in batch if isinstance(one, FileProblem)]
        for prepared, outcome in zip(ready, encode_items(self._observer, ready), strict=True):
            if isinstance(outcome, MultifoldError):
                outcomes.append(FileProblem(prepared.id, str(outcome)))
            else:
                outcomes.append(outcome)
        return outcomes
