"""A manifest into a collection: meshes are drawn in worker processes while others are encoded and written."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.drawn import Drawn
from app.ingest import Draft, make
from app.observer import Observer
from app.settings import Settings
from index.collection import Collection
from multifold.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.manifest import Entry
from multifold.types import Item, Kind
from renderers.base import Views
from renderers.errors import MeshError
from renderers.sandbox import Sandbox

BATCH = 32
HASH_LENGTH = 64


@dataclass
class Report:
    """What became of the entries of a manifest."""

    written: int = 0
    unchanged: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)  # id, reason


class Intake:
    """Writes what is new or has changed; what cannot be read is skipped and reported."""

    def __init__(
        self, encoder: Encoder, collection: Collection, sandbox: Sandbox, settings: Settings
    ) -> None:
        self._collection, self._sandbox = collection, sandbox
        self._views = encoder.bundle.views
        self._observer = Observer(encoder, sandbox, settings)
        self._drawn = Drawn(settings.data / "drawn", self._views)
        self.report = Report()

    def take(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Take entries in; yields each when it is done with."""
        changed = []
        for entry in entries:
            if self._is_there(entry):
                self.report.unchanged += 1
                yield entry
            else:
                changed.append(entry)
        drawings = self._draw([entry.mesh for entry in changed if entry.mesh is not None])
        for start in range(0, len(changed), BATCH):
            batch = changed[start : start + BATCH]
            self._write([item for entry in batch if (item := self._item(entry, drawings)) is not None])
            yield from batch

    def _is_there(self, entry: Entry) -> bool:
        """Whether the collection holds just what this entry would make."""
        stored = self._collection.get(entry.id)
        try:
            return (
                stored is not None and dict(stored.payload) == dict(entry.meta) and self._seen(stored, entry)
            )
        except OSError:
            return False

    def _seen(self, stored: Item, entry: Entry) -> bool:
        photos = tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in entry.images)
        views = () if entry.mesh is None else self._drawn.get(entry.mesh.read_bytes())
        captions = tuple(seen.text for seen in stored.observations if seen.kind == "caption")
        stored_photos = tuple(key[:HASH_LENGTH] for key in _blobs(stored, "photo"))
        return (captions, stored_photos, _blobs(stored, "view")) == (entry.texts, photos, views)

    def _draw(self, meshes: Sequence[Path]) -> Iterator[Views | MeshError]:
        spec = self._views
        return iter(self._sandbox.render_many(meshes, spec.rig, spec.size, spec.background, spec.up))

    def _item(self, entry: Entry, drawings: Iterator[Views | MeshError]) -> Item | None:
        drawing = next(drawings) if entry.mesh is not None else None
        try:
            if isinstance(drawing, MeshError):
                raise drawing
            photos = tuple(path.read_bytes() for path in entry.images)
            draft = Draft(entry.id, entry.texts, photos, drawing, entry.meta)
            item = make(self._observer, self._collection.blobs, draft).item
            if entry.mesh is not None:
                self._drawn.put(entry.mesh.read_bytes(), _blobs(item, "view"))
        except (MultifoldError, OSError) as error:
            self.report.skipped.append((entry.id, str(error)))
            return None
        return item

    def _write(self, items: Sequence[Item]) -> None:
        """Write them together; if one of them is refused, each on its own, so that the others get in."""
        try:
            self._collection.upsert(items)
            self.report.written += len(items)
        except MultifoldError as error:
            if len(items) == 1:
                self.report.skipped.append((items[0].id, str(error)))
                return
            for item in items:
                self._write([item])


def _blobs(item: Item, kind: Kind) -> tuple[str, ...]:
    return tuple(seen.blob for seen in item.observations if seen.kind == kind and seen.blob is not None)
