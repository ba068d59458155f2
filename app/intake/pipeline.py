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

from app.drawn import Drawn
from app.ingest import webp, write
from app.intake.content import stamp
from app.intake.originals import Originals
from app.intake.plan import Work
from app.observer import Observer
from app.settings import Settings
from app.thumbnails import keep
from index.collection import Collection
from multifold.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.folder import Problem
from multifold.machine import ahead, cores
from multifold.types import Feature, Item, Kind, Observation, Pixels, captions_of, pictures_of
from renderers.content import content_hash
from renderers.sandbox import Sandbox

BATCH = 64  # items that are written together
PART = 16  # items that are encoded together
LARGE = 1_000_000  # pixels of a photo that is slow to decode: it is made small at once, for grids
DISK = 16  # views that are made durable at once: each waits for the disk, which takes many together
AHEAD = 64  # items that are drawn and decoded before they are encoded


class IntakeError(MultifoldError):
    """A file that cannot be taken in now."""


@dataclass(frozen=True, eq=False)
class Seen:
    """A photo or a view: what the encoder takes, and the key of the picture."""

    kind: Kind
    pixels: Pixels
    blob: str


@dataclass(frozen=True, eq=False)
class Ready:
    """An item before it is encoded: what is new to see of it, or what was seen of it before."""

    work: Work
    seen: tuple[Seen, ...]
    before: tuple[Observation, ...] = ()
    files: tuple[str, ...] = ()  # keys of the mesh and of what it names
    stored: tuple[Future[str], ...] = ()  # its views, on their way to the disk


@dataclass(frozen=True, eq=False)
class Part:
    """Some items, encoded, and what became of those that could not be read."""

    items: list[Item]
    problems: list[Problem]


class Intake:
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
        self._observer = Observer(encoder, sandbox, settings)
        self._originals = Originals(collection.blobs, copy=copy)
        self._home, self._disk = home or settings.data, ThreadPoolExecutor(DISK)
        self._drawn = Drawn(self._home / "drawn", self._views)
        self.written: list[str] = []
        self.skipped: list[Problem] = []

    def take(self, works: Iterable[Work]) -> Iterator[int]:
        """Take items in; yields how many more are done with."""
        with ThreadPoolExecutor(1) as writer, self._disk:
            pending: Future[None] | None = None
            made = self.made(self.seen(works))
            while batch := list(islice(made, BATCH // PART)):
                if pending is not None:
                    pending.result()
                items = [item for part in batch for item in part.items]
                problems = [one for part in batch for one in part.problems]
                self.skipped += problems
                pending = writer.submit(self.write, items)
                yield len(items) + len(problems)
            if pending is not None:
                pending.result()

    def seen(self, works: Iterable[Work]) -> Iterator[Ready | Problem]:
        """Drawn and decoded by many threads and worker processes at once, in order."""
        return ahead(self._prepare, works, 2 * self._sandbox.workers + cores(), AHEAD)

    def made(self, seen: Iterator[Ready | Problem]) -> Iterator[Part]:
        """Encoded in parts, as many at once as keep the cores busy, in order."""
        parts = iter(lambda: list(islice(seen, PART)), [])
        return ahead(self._part, parts, self._encoder.lanes, self._encoder.lanes + 1)

    def encode(self, batch: Sequence[Ready]) -> list[Item]:
        """All pictures and all words of a batch at once."""
        pixels = [one.pixels for ready in batch for one in ready.seen]
        texts = [text for ready in batch for text in ready.work.texts]
        looks = iter(self._encoder.pixels(np.stack(pixels)) if pixels else ())
        words = iter(self._encoder.texts(texts).features)
        return [_item(ready, looks, words) for ready in batch]

    def write(self, items: Sequence[Item]) -> None:
        """A batch in one transaction; if it is refused, each item on its own."""
        self._originals.note()
        for item, outcome in zip(items, write(self._collection, items), strict=True):
            if isinstance(outcome, MultifoldError):
                self.skipped.append(Problem(item.id, str(outcome)))
            else:
                self.written.append(item.id)

    def _part(self, found: list[Ready | Problem]) -> Part:
        """Encoded; by then its views are stored, or there is a reason why an item has to stay out."""
        ready = [one for one in found if isinstance(one, Ready)]
        both = zip(self.encode(ready), map(_unstored, ready), strict=True)
        told = [item if problem is None else problem for item, problem in both]
        problems = [one for one in (*found, *told) if isinstance(one, Problem)]
        return Part([one for one in told if isinstance(one, Item)], problems)

    def _prepare(self, work: Work) -> Ready | Problem:
        try:
            if work.seen and (stored := self._collection.get(work.id)) is not None:
                before = tuple(one for one in stored.observations if one.kind != "caption")
                return Ready(work, (), before, self._originals.again(work, stored))
            views: list[Future[str]] = []
            seen = (*map(self._photo, work.images), *self._shape(work, views))
            files = () if work.mesh is None else self._originals.mesh(work)
            if any(stamp(Path(one[0])) != one for one in work.stamps):
                raise IntakeError("it changed while it was read; run it again")
            return Ready(work, seen, files=files, stored=tuple(views))
        except (MultifoldError, OSError) as error:
            return Problem(work.id, str(error))

    def _photo(self, path: Path) -> Seen:
        data = path.read_bytes()
        picture = self._observer.picture(data)
        pixels, key = self._observer.square(picture), self._originals.photo(path, data)
        if picture.width * picture.height > LARGE:
            keep(self._home, key, picture)
        return Seen("photo", pixels, key)

    def _shape(self, work: Work, stored: list[Future[str]]) -> Iterator[Seen]:
        if work.mesh is None:
            return
        spec = self._views
        drawing = self._sandbox.draw(
            work.mesh, None, spec.rig, spec.size, spec.background, spec.up, work.within
        )
        blobs, pictures = self._collection.blobs, [webp(view) for view in drawing.views]
        stored += [self._disk.submit(blobs.put, picture, ".webp") for picture in pictures]
        keys = [blobs.key(picture, ".webp") for picture in pictures]
        if work.within is None:
            self._drawn.put(content_hash(work.mesh), tuple(keys))
        for pixels, key in zip(self._observer.look_at_views(drawing.views), keys, strict=True):
            yield Seen("view", pixels, key)


def _unstored(ready: Ready) -> Problem | None:
    """What speaks against an item whose views cannot be stored."""
    try:
        for one in ready.stored:
            one.result()
    except (MultifoldError, OSError) as error:
        return Problem(ready.work.id, str(error))
    return None


def _item(ready: Ready, looks: Iterator[Feature], words: Iterator[Feature]) -> Item:
    work = ready.work
    said = captions_of(work.texts, islice(words, len(work.texts)))
    photos, views = ([one.blob for one in ready.seen if one.kind == kind] for kind in ("photo", "view"))
    seen = (
        *pictures_of("photo", islice(looks, len(photos)), photos),
        *pictures_of("view", islice(looks, len(views)), views),
    )
    return Item(work.id, (*said, *seen, *ready.before), work.payload, ready.files)
