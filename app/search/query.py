"""Query parts, their encoding into index vectors, and the options of a search.

Parts are decoded and drawn in bounded pools and encoded in batches; vectors of recent parts are cached.
All collections of one encoder share one QueryEncoder."""

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np

from app.concurrency.batching import Batcher
from app.concurrency.pools import ThreadPool
from app.encoding.observations import MeshData, ObservationEncoder, ViewPixels
from app.errors import ApiError
from app.http.schemas.search import DuplicateMode, LexicalMode
from app.operations.telemetry import Telemetry
from app.settings import Settings
from index.collection import Collection
from index.store.filters import Filter
from multifold.bundle.calibration import CalibrationCurve, pair_name
from multifold.types import (
    SIDE_OF,
    SIDES,
    Feature,
    Hit,
    LexicalQuery,
    Mix,
    Pixels,
    Pooling,
    Query,
    Side,
    Target,
    Vector,
    pool_mean,
)

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """Keeps the values that were used last, up to a number of them. For one thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Key, Value] = OrderedDict()
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Value | None:
        """The value of a key, if it was kept."""
        value = self._kept.get(key)
        if value is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Keep a value; the one that was used longest ago makes room."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


NO_FEATURE: Feature = np.empty(0, np.float32)


@dataclass(frozen=True, eq=False)
class EncodedPart:
    """What the encoder makes of something, and what its sender should know about that."""

    feature: Feature
    vector: Vector
    warnings: tuple[str, ...] = ()


class QueryEncoder:
    """Reads words, looks at pictures, draws meshes with one encoder; for one event loop."""

    def __init__(
        self, observer: ObservationEncoder, settings: Settings, telemetry: Telemetry, draw: ThreadPool
    ) -> None:
        self._observer = observer
        self._known: LruCache[Hashable, EncodedPart] = LruCache(settings.cache)
        room, most = settings.queue, settings.batch
        watch = telemetry.watch
        self._words = Batcher(self._read, most=most, room=room, watch=watch("text"))
        self._pictures = Batcher(self._see, most=most, room=room, watch=watch("image"))
        self._decode = ThreadPool("decode", settings.decoders, room, watch("decode"))
        self._draw = draw

    async def text(self, text: str) -> EncodedPart:
        """Read words."""
        known = self._known.get(text)
        if known is None:
            known = await self._words.ask(text)
            self._known.put(text, known)
        return known

    async def image(self, data: bytes) -> EncodedPart:
        """Look at a picture."""
        key = hashlib.sha256(data).digest()
        known = self._known.get(key)
        if known is None:
            picture = await self._decode.run(lambda: self._observer.look(data))
            known = await self._pictures.ask(picture, admitted=True)
            self._known.put(key, known)
        return known

    async def mesh(self, mesh: MeshData) -> EncodedPart:
        """Draw a mesh and look at it from all sides of the rig."""
        key = (hashlib.sha256(mesh.data).digest(), mesh.suffix)
        known = self._known.get(key)
        if known is None:
            known = await self._look_around(await self._draw.run(lambda: self._views(mesh)))
            self._known.put(key, known)
        return known

    def given(self, numbers: Sequence[float]) -> EncodedPart:
        """An index vector that is there already."""
        dim = self._observer.encoder.dim
        if len(numbers) != dim:
            raise ApiError(422, "bad_vector", f"the vector has {len(numbers)} numbers; here they have {dim}")
        with np.errstate(over="ignore"):  # what overflows is refused by the index
            return EncodedPart(NO_FEATURE, np.asarray(numbers, np.float32))

    def of(self, feature: Feature) -> EncodedPart:
        """What is sensed of a feature that is there already."""
        vector: Vector = self._observer.encoder.vectors(feature[None])[0]
        return EncodedPart(feature, vector)

    @property
    def cached(self) -> tuple[int, int, int]:
        """How the memory does: hits, misses, size."""
        return self._known.hits, self._known.misses, len(self._known)

    @property
    def waiting(self) -> dict[str, int]:
        """How many wait for what."""
        return {
            "text": self._words.waiting,
            "image": self._pictures.waiting,
            "decode": self._decode.waiting,
        }

    def close(self) -> None:
        """Finish what was accepted."""
        self._decode.close()
        self._words.close()
        self._pictures.close()

    async def _look_around(self, views: ViewPixels) -> EncodedPart:
        seen = await asyncio.gather(*(self._pictures.ask(view, admitted=True) for view in views))
        return self.of(pool_mean(np.stack([one.feature for one in seen])))

    def _views(self, mesh: MeshData) -> ViewPixels:
        return self._observer.look_at_views(self._observer.draw(mesh))

    def _read(self, texts: list[str]) -> list[EncodedPart]:
        encoder = self._observer.encoder
        encoded = encoder.texts(texts)
        found = zip(encoded.features, encoder.vectors(encoded.features), encoded.cut, strict=True)
        return [
            EncodedPart(feature, vector, self._observer.cut_warnings((cut,)))
            for feature, vector, cut in found
        ]

    def _see(self, pictures: Sequence[Pixels]) -> list[EncodedPart]:
        encoder = self._observer.encoder
        features = encoder.pixels(np.stack(pictures))
        return [EncodedPart(*both) for both in zip(features, encoder.vectors(features), strict=True)]


class CollectionQueryEncoder:
    """What one collection is asked with: seeing and reading are its encoder's, recalling is its own."""

    def __init__(self, perception: QueryEncoder, collection: Collection, quick: ThreadPool) -> None:
        self.text, self.image, self.mesh = perception.text, perception.image, perception.mesh
        self.given, self._of = perception.given, perception.of
        self._collection, self._quick = collection, quick

    async def item(self, name: str, sides: Sequence[Side]) -> EncodedPart:
        """Recall the first of these sides that an item has."""
        return await self._quick.run(lambda: self._recalled(name, sides))

    def _recalled(self, name: str, sides: Sequence[Side]) -> EncodedPart:
        item = self._collection.get(name)
        if item is None:
            raise ApiError(404, "not_found", f"there is no item {name!r}")
        for side in sides:
            seen = [one.feature for one in item.observations if SIDE_OF[one.kind] == side]
            if seen:
                return self._of(pool_mean(np.stack(seen)))
        raise ApiError(422, "no_such_side", f"the item {name!r} has no {' and no '.join(sides)}")


class QueryPart(ABC):
    """Something to search with."""

    side: ClassVar[Side | None] = None  # as what it is compared; None where confidence has no meaning

    @abstractmethod
    async def sense(self, senses: CollectionQueryEncoder) -> EncodedPart:
        """What the encoder makes of this clue."""


@dataclass(frozen=True)
class TextQueryPart(QueryPart):
    """A text to search with."""

    side = "text"
    text: str

    async def sense(self, senses: CollectionQueryEncoder) -> EncodedPart:
        """Read it."""
        return await senses.text(self.text)


@dataclass(frozen=True)
class ImageQueryPart(QueryPart):
    """A picture to search with, as the bytes of its file."""

    side = "image"
    data: bytes

    async def sense(self, senses: CollectionQueryEncoder) -> EncodedPart:
        """Look at it."""
        return await senses.image(self.data)


@dataclass(frozen=True)
class MeshQueryPart(QueryPart):
    """A mesh to search with."""

    side = "shape"
    mesh: MeshData

    async def sense(self, senses: CollectionQueryEncoder) -> EncodedPart:
        """Draw it and look at it."""
        return await senses.mesh(self.mesh)


@dataclass(frozen=True)
class ItemQueryPart(QueryPart):
    """An item of this collection: one of its sides, the first of these that it has."""

    id: str
    sides: tuple[Side, ...]

    async def sense(self, senses: CollectionQueryEncoder) -> EncodedPart:
        """Recall it."""
        return await senses.item(self.id, self.sides)


@dataclass(frozen=True)
class VectorQueryPart(QueryPart):
    """An index vector that somebody has already."""

    numbers: tuple[float, ...]

    async def sense(self, senses: CollectionQueryEncoder) -> EncodedPart:
        """Take it as it is."""
        return senses.given(self.numbers)


@dataclass(frozen=True)
class QueryOptions:
    """How to search."""

    target: Target = "shape"
    limit: int = 10
    offset: int = 0
    where: Filter | None = None
    pool: Pooling = "mean"
    min_score: float | None = None
    min_confidence: float | None = None
    exact: bool = False
    lexical: LexicalMode | None = None  # as the service is set
    duplicates: DuplicateMode = "show"
    explain: bool = False  # the score of each side of a hit is told too


@dataclass(frozen=True)
class SearchQuery:
    """Clues, each with a weight if there are several, and how to search with them."""

    clues: tuple[tuple[QueryPart, float], ...]
    options: QueryOptions

    @property
    def side(self) -> Side | None:
        """As what it is compared; a mix is nothing that was ever calibrated."""
        return self.clues[0][0].side if self.alone else None

    @property
    def alone(self) -> bool:
        """Whether there is one clue only, and not turned round."""
        return len(self.clues) == 1 and self.clues[0][1] == 1

    def query(self, vectors: list[Vector], settings: Settings) -> Query:
        """What the index is asked."""
        mixed = Mix(tuple((vector, weight) for vector, (_, weight) in zip(vectors, self.clues, strict=True)))
        options = self.options
        vector = mixed.parts[0][0] if self.alone else mixed
        words = self._words(options.lexical or settings.lexical, settings.lexical_weight)
        return Query(vector, options.target, options.limit, options.pool, options.offset, words)

    def _words(self, lexical: LexicalMode, counts: float) -> LexicalQuery | None:
        """The texts that are asked with, but for those that it is away from."""
        texts = [clue.text for clue, weight in self.clues if isinstance(clue, TextQueryPart) and weight > 0]
        if lexical == "only" and not texts:
            raise ApiError(422, "no_words", "'lexical': 'only' looks for words; ask with a text")
        return (
            None
            if lexical == "off" or not texts
            else LexicalQuery(" ".join(texts), counts, lexical == "only")
        )


def check_confidence(curves: Mapping[str, CalibrationCurve], question: SearchQuery) -> None:
    """Refuse a threshold on a confidence that nobody knows."""
    options = question.options
    if options.min_confidence is None:
        return
    targets = SIDES if options.target == "any" else (options.target,)
    asked = question.side
    if asked is None or not any(pair_name(asked, side, options.pool) in curves for side in targets):
        sentence = "no confidence is known for this: it needs one text, image or mesh, and a bundle that is "
        raise ApiError(422, "no_calibration", f"{sentence}calibrated for it; use 'min_score' instead")


def passes_thresholds(hit: Hit, options: QueryOptions) -> bool:
    """Whether a hit is good enough for those who asked."""
    if options.min_score is not None and hit.score < options.min_score:
        return False
    least = options.min_confidence
    return least is None or (hit.confidence is not None and hit.confidence >= least)
