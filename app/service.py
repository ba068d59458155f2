"""The service without its wire: an encoder, a collection and a sandbox that answer questions together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from app.ingest import Draft, Made, make
from app.observer import Observer, encoder_of
from app.settings import Settings
from index.collection import Collection
from multifold.encoder import Encoder
from multifold.types import Feature, Hit, Query, Vector
from renderers.sandbox import Sandbox


@dataclass(frozen=True)
class Found:
    """What a search found, and the version of the collection that it saw at least."""

    version: int
    hits: list[Hit]


@dataclass(frozen=True)
class Answer:
    """Hits, and how they came about. Times are in seconds."""

    hits: list[Hit]
    encode: float
    search: float
    version: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Stored:
    """An item that was written, and the sequence number of that change."""

    made: Made
    version: int


@dataclass(frozen=True)
class Service:
    """Everything a request needs. Its methods may be called from several threads."""

    settings: Settings
    encoder: Encoder
    collection: Collection
    observer: Observer

    def search(self, queries: Sequence[Query]) -> list[Found]:
        """The hits of each query, and the version that they are of at least."""
        return [Found(self.collection.version, self.collection.search(query)) for query in queries]

    def put(self, draft: Draft) -> Stored:
        """Make an item and write it."""
        made = make(self.observer, self.collection.blobs, draft)
        return Stored(made, self.collection.upsert([made.item]))

    def delete(self, ids: Sequence[str]) -> int:
        """Remove items; returns how many there were."""
        return self.collection.delete(ids)

    def vector(self, feature: Feature) -> Vector:
        """The index vector of one feature."""
        vector: Vector = self.encoder.vectors(feature[None])[0]
        return vector


@contextmanager
def opened(settings: Settings, address: str | None = None) -> Iterator[Service]:
    """A service at work: bundle verified, collection locked for writing, workers warm."""
    encoder = encoder_of(settings)
    collection = Collection.open(
        settings.data, encoder, writer=address or settings.url, probes=encoder.bundle.probes()
    )
    try:
        with Sandbox(workers=settings.renderers, seconds=settings.render_seconds) as sandbox:
            yield Service(settings, encoder, collection, Observer(encoder, sandbox, settings))
    finally:
        collection.close()
