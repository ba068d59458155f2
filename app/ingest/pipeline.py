"""Files into a collection: while meshes are drawn and photos decoded, others are encoded, others written.

    work -> drawn and decoded by many -> encoded in parts by as many as there are cores for
         -> written in transactions by one

Each stage is at most a batch or two ahead of the next, so memory does not grow with the number of items.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from app.encoding.observations import ObservationEncoder
from app.ingest.caches import ViewCache, stamp_file
from app.ingest.originals import OriginalFiles
from app.ingest.plan import IngestTask
from app.ingest.preparation import encode_webp, write_items
from app.ingest.thumbnails import write_thumbnail
from app.settings import Settings
from index.collection import Collection
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.files.folder import FileProblem
from multifold.machine import cores, map_ahead
from multifold.types import Feature, Item, Kind, Observation, Pixels, captions_of, pictures_of
from renderers.mesh.formats.mesh_file import content_hash
from renderers.sandbox import Sandbox

WRITE_BATCH = 64  # items that are written together
ENCODE_BATCH = 16  # items that are encoded together
LARGE_PHOTO = 1_000_000  # pixels of a photo that is slow to decode: it is made small at once, for grids
DISK_WRITERS = 16  # views that are made durable at once: each waits for the disk, which takes many together
DECODE_AHEAD = 64  # items that are drawn and decoded before they are encoded


class IngestFileError(MultifoldError):
    """A file that cannot be taken in now."""


@dataclass(frozen=True, eq=False)
class DecodedPicture:
    """A photo or a view: what the encoder takes, and the key of the picture."""

    kind: Kind
    pixels: Pixels
    blob: str


@dataclass(frozen=True, eq=False)
class DecodedItem:
    """An item before it is encoded: what is new to see of it, or what was seen of it before."""

    work: IngestTask
    seen: tuple[DecodedPicture, ...]
    before: tuple[Observation, ...] = ()
    files: tuple[str, ...] = ()  # keys of the mesh and of what it names
    stored: tuple[Future[str], ...] = ()  # its views, on their way to the disk


@dataclass(frozen=True, eq=False)
class EncodedItems:
    """Some items, encoded, and what became of those that could not be read."""

    items: list[Item]
    problems: list[FileProblem]


class IngestPipeline:
    """Writes items; what cannot be read is skipped and reported."""

    def __init__(
        self,
        encoder: Encoder,
        collection: Collection,
        sandbox: Sandbox,
        settings: Settings,
        home: Path | None = None,
        *,
        copy: bool = False,
    ) -> None:
        self._encoder, self._collection, self._sandbox = encoder, collection, sandbox
        self._views = encoder.bundle.views
        self._observer = ObservationEncoder(encoder, sandbox, settings)
        self._originals = OriginalFiles(collection.blobs, copy=copy)
        self._home, self._disk = home or settings.data, ThreadPoolExecutor(DISK_WRITERS)
        self._drawn = ViewCache(self._home / "drawn", self._views)
        self.written: list[str] = []
        self.skipped: list[FileProblem] = []

    def take(self, works: Iterable[IngestTask]) -> Iterator[int]:
        """Take items in; yields how many more are done with."""
        with ThreadPoolExecutor(1) as writer, self._disk:
            pending: Future[None] | None = None
            made = self.made(self.seen(works))
            while batch := list(islice(made, WRITE_BATCH // ENCODE_BATCH)):
                if pending is not None:
                    pending.result()
                items = [item for part in batch for item in part.items]
                problems = [one for part in batch for one in part.problems]
                self.skipped += problems
                pending = writer.submit(self.write, items)
                yield len(items) + len(problems)
            if pending is not None:
                pending.result()

    def seen(self, works: Iterable[IngestTask]) -> Iterator[DecodedItem | FileProblem]:
        """Drawn and decoded by many threads and worker processes at once, in order."""
        return map_ahead(self._prepare, works, 2 * self._sandbox.workers + cores(), DECODE_AHEAD)

    def made(self, seen: Iterator[DecodedItem | FileProblem]) -> Iterator[EncodedItems]:
        """Encoded in parts, as many at once as keep the cores busy, in order."""
        parts = iter(lambda: list(islice(seen, ENCODE_BATCH)), [])
        return map_ahead(self._part, parts, self._encoder.lanes, self._encoder.lanes + 1)

    def encode(self, batch: Sequence[DecodedItem]) -> list[Item]:
        """All pictures and all words of a batch at once."""
        pixels = [one.pixels for ready in batch for one in ready.seen]
        texts = [text for ready in batch for text in ready.work.texts]
        looks = iter(self._encoder.pixels(np.stack(pixels)) if pixels else ())
        words = iter(self._encoder.texts(texts).features)
        return [_encoded_item(ready, looks, words) for ready in batch]

    def write(self, items: Sequence[Item]) -> None:
        """A batch in one transaction; if it is refused, each item on its own."""
        self._originals.note()
        for item, outcome in zip(items, write_items(self._collection, items), strict=True):
            if isinstance(outcome, MultifoldError):
                self.skipped.append(FileProblem(item.id, str(outcome)))
            else:
                self.written.append(item.id)

    def _part(self, found: list[DecodedItem | FileProblem]) -> EncodedItems:
        """Encoded; by then its views are stored, or there is a reason why an item has to stay out."""
        ready = [one for one in found if isinstance(one, DecodedItem)]
        both = zip(self.encode(ready), map(_storing_problem, ready), strict=True)
        told = [item if problem is None else problem for item, problem in both]
        problems = [one for one in (*found, *told) if isinstance(one, FileProblem)]
        return EncodedItems([one for one in told if isinstance(one, Item)], problems)

    def _prepare(self, work: IngestTask) -> DecodedItem | FileProblem:
        try:
            if work.seen and (stored := self._collection.get(work.id)) is not None:
                before = tuple(one for one in stored.observations if one.kind != "caption")
                return DecodedItem(work, (), before, self._originals.again(work, stored))
            views: list[Future[str]] = []
            seen = (*map(self._photo, work.images), *self._shape(work, views))
            files = () if work.mesh is None else self._originals.mesh(work)
            if any(stamp_file(Path(one[0])) != one for one in work.stamps):
                raise IngestFileError("it changed while it was read; run it again")
            return DecodedItem(work, seen, files=files, stored=tuple(views))
        except (MultifoldError, OSError) as error:
            return FileProblem(work.id, str(error))

    def _photo(self, path: Path) -> DecodedPicture:
        data = path.read_bytes()
        picture = self._observer.picture(data)
        pixels, key = self._observer.square(picture), self._originals.photo(path, data)
        if picture.width * picture.height > LARGE_PHOTO:
            write_thumbnail(self._home, key, picture)
        return DecodedPicture("photo", pixels, key)

    def _shape(self, work: IngestTask, stored: list[Future[str]]) -> Iterator[DecodedPicture]:
        if work.mesh is None:
            return
        spec = self._views
        drawing = self._sandbox.draw(
            work.mesh, None, spec.rig, spec.size, spec.background, spec.up, work.within
        )
        blobs, pictures = self._collection.blobs, [encode_webp(view) for view in drawing.views]
        stored += [self._disk.submit(blobs.put, picture, ".webp") for picture in pictures]
        keys = [blobs.key(picture, ".webp") for picture in pictures]
        if work.within is None:
            self._drawn.put(content_hash(work.mesh), tuple(keys))
        for pixels, key in zip(self._observer.look_at_views(drawing.views), keys, strict=True):
            yield DecodedPicture("view", pixels, key)


def _storing_problem(ready: DecodedItem) -> FileProblem | None:
    """What speaks against an item whose views cannot be stored."""
    try:
        for one in ready.stored:
            one.result()
    except (MultifoldError, OSError) as error:
        return FileProblem(ready.work.id, str(error))
    return None


def _encoded_item(ready: DecodedItem, looks: Iterator[Feature], words: Iterator[Feature]) -> Item:
    work = ready.work
    said = captions_of(work.texts, islice(words, len(work.texts)))
    photos, views = ([one.blob for one in ready.seen if one.kind == kind] for kind in ("photo", "view"))
    seen = (
        *pictures_of("photo", islice(looks, len(photos)), photos),
        *pictures_of("view", islice(looks, len(views)), views),
    )
    return Item(work.id, (*said, *seen, *ready.before), work.payload, ready.files)
