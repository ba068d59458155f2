"""One collection without its wire: searches it, prepares, writes, changes and removes items."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.collections import confidence
from app.collections.confidence import ConfidenceFitter
from app.encoding.observations import ObservationEncoder
from app.errors import ApiError
from app.ingest.preparation import ItemDraft, PreparedItem, encode_captions, prepare_item, write_items
from app.ingest.thumbnails import read_thumbnail
from app.settings import Settings
from index.collection import Collection
from index.search.search import SearchRequest
from index.store.filters import Filter
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.types import ConfidenceBasis, Feature, Hit, Item, Query, Side, Vector


def merge_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The target with the patch's values in place of its own; null takes a key away, objects go inwards."""
    result = {key: value for key, value in target.items() if key not in patch}
    for key, value in patch.items():
        if isinstance(value, Mapping):
            inner = target.get(key)
            result[key] = merge_patch(inner if isinstance(inner, Mapping) else {}, value)
        elif value is not None:
            result[key] = value
    return result


@dataclass(frozen=True)
class VersionedHits:
    """What a search found, and the version of the collection that it saw at least."""

    version: int
    hits: list[Hit]


@dataclass(frozen=True)
class SearchOutcome:
    """Hits, and how they came about. Times are in seconds."""

    hits: list[Hit]
    encode: float
    search: float
    version: int
    warnings: tuple[str, ...]
    address: str  # of the collection that they are of
    by: ConfidenceBasis | None = None  # what says how sure they are
    chance: tuple[float | None, ...] = ()  # for each hit how rarely a stranger scores so high
    sides: tuple[dict[Side, float], ...] = ()  # for each hit the score of each of its sides, if asked for

    def only(self, places: Sequence[int]) -> "SearchOutcome":
        """The hits of these places, with what is told of each."""
        chance = tuple(self.chance[place] for place in places if self.chance)
        sides = tuple(self.sides[place] for place in places if self.sides)
        return replace(self, hits=[self.hits[place] for place in places], chance=chance, sides=sides)


@dataclass(frozen=True)
class CollectionQuery:
    """A query on its way to the index, and among which items it looks."""

    query: Query
    where: Filter | None = None
    exact: bool = False
    asked: Side | None = None  # with one text, picture or mesh, which confidence knows


@dataclass(frozen=True)
class WrittenItem:
    """An item that was written, and the sequence number of that change."""

    made: PreparedItem
    version: int


@dataclass(frozen=True)
class CollectionService:
    """Everything a request needs. Its methods may be called from several threads."""

    settings: Settings
    collection: Collection
    observer: ObservationEncoder
    name: str
    home: Path  # the folder of the collection
    writing: threading.Lock = field(default_factory=threading.Lock)
    sure: ConfidenceFitter = field(init=False)

    def __post_init__(self) -> None:
        """What it knows of its scores comes with its first searches."""
        object.__setattr__(self, "sure", ConfidenceFitter(self.observer, self.collection))

    @property
    def encoder(self) -> Encoder:
        """The encoder that is at work now."""
        return self.observer.encoder

    def search(self, looks: Sequence[CollectionQuery]) -> list[VersionedHits]:
        """The hits of each query, and the version that they are of at least."""
        version = self.collection.version
        return [
            VersionedHits(version, hits) for hits in self.collection.search_many([*map(self._ask, looks)])
        ]

    def make(self, draft: ItemDraft) -> PreparedItem:
        """An item ready to be stored."""
        return prepare_item(self.observer, self.collection.blobs, draft)

    def put(self, made: Sequence[PreparedItem]) -> list[WrittenItem | MultifoldError]:
        """Write items, together or, if one is refused, each on its own: the others get in."""
        with self.writing:
            outcomes = write_items(self.collection, [one.item for one in made])
        return [
            outcome if isinstance(outcome, MultifoldError) else WrittenItem(one, outcome)
            for one, outcome in zip(made, outcomes, strict=True)
        ]

    def patch(self, name: str, texts: Sequence[str] | None, payload: Mapping[str, Any] | None) -> WrittenItem:
        """Change captions or payload of an item; the rest of it stays."""
        said = None if texts is None else encode_captions(self.observer, tuple(texts))
        with self.writing:
            former = self.collection.get(name)
            if former is None:
                raise ApiError(404, "not_found", f"there is no item {name!r}")
            seen = former.observations
            if said is not None:
                seen = (*said.observations, *(one for one in seen if one.kind != "caption"))
            item = Item(name, seen, merge_patch(former.payload, payload or {}), former.files)
            return WrittenItem(
                PreparedItem(item, said.warnings if said else ()), self.collection.upsert([item])
            )

    def delete(self, ids: Sequence[str]) -> int:
        """Remove items; returns how many there were."""
        with self.writing:
            return self.collection.delete(ids)

    def delete_where(self, where: Filter) -> int:
        """Remove the items that a filter lets through; returns how many there were."""
        with self.writing:
            return self.collection.delete_where(where)

    def _ask(self, look: CollectionQuery) -> SearchRequest:
        known = confidence.calibration_of(self.sure.now().curves, look.asked, look.query.pool)
        return SearchRequest(look.query, look.where, look.exact, known)

    def thumbnail(self, key: str) -> bytes:
        """One of its pictures, small."""
        return read_thumbnail(self.home, self.collection.blobs, key, self.settings.max_pixels)

    def tokens(self, texts: Sequence[str]) -> int:
        """How many tokens these texts have for this encoder."""
        tokenizer = self.encoder.tokenizer
        return int((tokenizer(texts).ids != tokenizer.spec.pad).sum())

    def vector(self, feature: Feature) -> Vector:
        """The index vector of one feature."""
        vector: Vector = self.encoder.vectors(feature[None])[0]
        return vector
