"""The parts of a query, their encoding into index vectors, and the request that they become.

Parts are decoded and rendered in bounded pools and encoded in batches; vectors of recent parts are cached.
All collections of one encoder share one QueryEncoder."""

import asyncio
import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from app.collections.confidence import calibration_of
from app.concurrency.batching import Batcher
from app.concurrency.pools import RenderPool, ThreadPool
from app.encoding.observations import MeshData, ObservationEncoder
from app.errors import ApiError
from app.operations.telemetry import Telemetry
from app.settings import Settings
from index.collection import Collection
from index.search.evidence_model import EvidenceModel
from index.search.search import SearchRequest
from index.store.filters import AndFilter, Filter, parse_filter
from multifold.bundle.calibration import CalibrationCurve, pair_name
from multifold.types import (
    NO_EXAMPLES,
    SIDES,
    ConfidenceBasis,
    Examples,
    Feature,
    Hit,
    Leg,
    LexicalQuery,
    Mix,
    Pixels,
    Query,
    Side,
    Vector,
    pool_side,
)
from multifold.wire.search import LexicalMode, SearchOptions

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """Keeps a number of values, those that were used last. For one thread."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        value = self._values.get(key)
        if value is None:
            self.misses += 1
            return None
        self.hits += 1
        self._values.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Cache a value, in place of the one that was used longest ago if the cache is full."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._capacity:
            self._values.popitem(last=False)


NO_FEATURE: Feature = np.empty(0, np.float32)


@dataclass(frozen=True, eq=False)
class EncodedPart:
    """The feature and the index vector of a query part, and warnings for its sender."""

    feature: Feature
    vector: Vector
    warnings: tuple[str, ...] = ()
    forms: Mapping[Leg, Vector] = field(default_factory=dict)  # of a mesh: of its views and its points alone


class QueryEncoder:
    """Encodes texts, pictures and meshes with one encoder; for one event loop."""

    def __init__(
        self, observer: ObservationEncoder, settings: Settings, telemetry: Telemetry, render_pool: RenderPool
    ) -> None:
        self._observer = observer
        self._cache: LruCache[Hashable, EncodedPart] = LruCache(settings.cache)
        room, most = settings.queue, settings.batch
        watch = telemetry.watch
        self._texts = Batcher(self._encode_texts, most=most, room=room, watch=watch("text"))
        self._pictures = Batcher(self._encode_pictures, most=most, room=room, watch=watch("image"))
        # each picture on its own: a large one holds up no other
        self._files = Batcher(
            self._decode, most=1, room=room, threads=settings.decoders, watch=watch("decode")
        )
        self._decode_pool = ThreadPool("decode", settings.decoders, room, watch("decode"))
        self._render_pool = render_pool

    async def text(self, text: str) -> EncodedPart:
        encoded = self._cache.get(text)
        if encoded is None:
            encoded = await self._texts.ask(text)
            self._cache.put(text, encoded)
        return encoded

    async def image(self, data: bytes) -> EncodedPart:
        """Decode and encode a picture."""
        key = hashlib.sha256(data).digest()
        encoded = self._cache.get(key)
        if encoded is None:
            picture = await self._files.ask(data)
            encoded = await self._pictures.ask(picture, admitted=True)
            self._cache.put(key, encoded)
        return encoded

    async def mesh(self, mesh: MeshData) -> EncodedPart:
        """Render a mesh from all cameras of the rig, and encode all that the bundle reads of it as one."""
        key = (hashlib.sha256(mesh.data).digest(), mesh.suffix)
        encoded = self._cache.get(key)
        if encoded is None:
            observer = self._observer
            drawn = await self._render_pool.run(lambda lane: observer.draw(mesh, lane), mesh.size)
            views = await self._decode_pool.run(lambda: observer.look_at_views(drawn.views))
            parts = await asyncio.gather(*(self._pictures.ask(view, admitted=True) for view in views))
            features = [part.feature for part in parts]
            encode = partial(observer.shape, features, drawn.points)
            pooled, legs = await self._decode_pool.run(encode)
            forms = {leg: self.from_feature(one).vector for leg, one in legs.items()}
            encoded = replace(self.from_feature(pooled), warnings=drawn.report.notes, forms=forms)
            self._cache.put(key, encoded)
        return encoded

    def from_vector(self, numbers: Sequence[float]) -> EncodedPart:
        """An index vector that was encoded elsewhere."""
        dim = self._observer.encoder.dim
        if len(numbers) != dim:
            raise ApiError(422, "bad_vector", f"the vector has {len(numbers)} numbers; here they have {dim}")
        with np.errstate(over="ignore"):  # what overflows is refused by the index
            return EncodedPart(NO_FEATURE, np.asarray(numbers, np.float32))

    def from_feature(self, feature: Feature) -> EncodedPart:
        """A feature that was stored or pooled, with its index vector."""
        vector: Vector = self._observer.encoder.vectors(feature[None])[0]
        return EncodedPart(feature, vector)

    @property
    def cache_counts(self) -> tuple[int, int, int]:
        return self._cache.hits, self._cache.misses, len(self._cache)

    @property
    def waiting(self) -> dict[str, int]:
        """How many requests wait, by kind of work."""
        return {
            "text": self._texts.waiting,
            "image": self._pictures.waiting,
            "decode": self._files.waiting + self._decode_pool.waiting,
        }

    def close(self) -> None:
        self._decode_pool.close()
        self._files.close()
        self._texts.close()
        self._pictures.close()

    def _decode(self, files: Sequence[bytes]) -> list[Pixels]:
        return [self._observer.look(data) for data in files]

    def _encode_texts(self, texts: list[str]) -> list[EncodedPart]:
        encoder = self._observer.encoder
        encoded = encoder.texts(texts)
        rows = zip(encoded.features, encoder.vectors(encoded.features), encoded.cut, strict=True)
        return [
            EncodedPart(feature, vector, self._observer.cut_warnings((cut,))) for feature, vector, cut in rows
        ]

    def _encode_pictures(self, pictures: Sequence[Pixels]) -> list[EncodedPart]:
        encoder = self._observer.encoder
        features = encoder.pixels(np.stack(pictures))
        return [EncodedPart(*pair) for pair in zip(features, encoder.vectors(features), strict=True)]


class QueryPart:
    """Something to search with."""

    side: ClassVar[Side | None] = None  # as what it is compared; None where confidence has no meaning


@dataclass(frozen=True)
class TextQueryPart(QueryPart):
    """A text to search with."""

    side = "text"
    text: str


@dataclass(frozen=True)
class ImageQueryPart(QueryPart):
    """A picture to search with, as the bytes of its file."""

    side = "image"
    data: bytes


@dataclass(frozen=True)
class MeshQueryPart(QueryPart):
    """A mesh to search with."""

    side = "shape"
    mesh: MeshData


@dataclass(frozen=True)
class ItemQueryPart(QueryPart):
    """An item of this collection: one of its sides, the first of these that it has."""

    id: str
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class VectorQueryPart(QueryPart):
    """An index vector that was encoded elsewhere."""

    numbers: tuple[float, ...]


class CollectionQueryEncoder:
    """Encodes the query parts of one collection, whose items the shared QueryEncoder does not know."""

    def __init__(self, encoder: QueryEncoder, collection: Collection, pool: ThreadPool) -> None:
        self._encoder, self._collection, self._pool = encoder, collection, pool

    async def encode(self, part: QueryPart) -> EncodedPart:
        """The feature and the index vector of a query part."""
        match part:
            case TextQueryPart(text):
                return await self._encoder.text(text)
            case ImageQueryPart(data):
                return await self._encoder.image(data)
            case MeshQueryPart(mesh):
                return await self._encoder.mesh(mesh)
            case ItemQueryPart(name, sides):
                return await self._pool.run(lambda: self._stored(name, sides))
            case VectorQueryPart(numbers):
                return self._encoder.from_vector(numbers)
            case _:
                raise TypeError(part)

    def _stored(self, name: str, sides: Sequence[Side]) -> EncodedPart:
        """The observations of an item, of the first of these sides that it has."""
        item = self._collection.get(name)
        if item is None:
            raise ApiError(404, "not_found", f"there is no item {name!r}")
        for side in sides:
            pooled = pool_side(item.observations, side)
            if pooled is not None:
                return self._encoder.from_feature(pooled)
        raise ApiError(422, "no_such_side", f"the item {name!r} has no {' and no '.join(sides)}")


WeightedParts: TypeAlias = Sequence[tuple[QueryPart, float]]


def is_single(parts: WeightedParts) -> bool:
    """Whether a query has one part only, and not negated."""
    return len(parts) == 1 and parts[0][1] == 1


def side_of(parts: WeightedParts) -> Side | None:
    """As what a query is compared; None for a mix, which no calibration covers."""
    return parts[0][0].side if is_single(parts) else None


def narrow_filter(options: SearchOptions, where: Filter | None) -> Filter | None:
    """The filter of the options, and of those items only what `where` lets through."""
    own = parse_filter(options.filter) if options.filter else None
    if own is None or where is None:
        return where if own is None else own
    return AndFilter((where, own))


def search_request(
    parts: WeightedParts,
    vectors: Sequence[Vector],
    options: SearchOptions,
    where: Filter | None,
    curves: Mapping[str, CalibrationCurve],
    evidence: EvidenceModel,
    settings: Settings,
) -> SearchRequest:
    """The request to the index for a query whose parts were encoded."""
    mix = Mix(tuple((vector, weight) for vector, (_, weight) in zip(vectors, parts, strict=True)))
    vector = vectors[0] if is_single(parts) else mix
    words = _lexical_query(parts, options.lexical or settings.lexical, settings.lexical_weight)
    query = Query(vector, options.target, options.limit, options.pool, options.offset, words)
    if options.target == "item":
        request = SearchRequest(query, where, options.exact, side=evidence_side(parts), evidence=evidence)
        return replace(request, examples=options.examples or NO_EXAMPLES, diversity=options.diversity)
    calibration, side = calibration_of(curves, side_of(parts), options.pool), evidence_side(parts)
    request = SearchRequest(query, where, options.exact, calibration, side, shapes=evidence.of_shapes(side))
    return replace(request, text=" ".join(_texts_of(parts)) or None)


def check_examples(examples: Examples, item: Callable[[str], object]) -> None:
    """Refuse examples that are not there, as `item` does."""
    for name in (*examples.good, *examples.bad):
        item(name)


def evidence_side(parts: WeightedParts) -> Side:
    """As what a query is weighted: a text if it has one, else as its first part that has a side."""
    parts_first = sorted(parts, key=lambda pair: not isinstance(pair[0], TextQueryPart))
    sides = (part.sides[0] if isinstance(part, ItemQueryPart) else part.side for part, _ in parts_first)
    return next((side for side in sides if side is not None), "image")


def _lexical_query(parts: WeightedParts, mode: LexicalMode, weight_of_words: float) -> LexicalQuery | None:
    """The texts of a query, but for those with a negative weight."""
    texts = _texts_of(parts)
    if mode == "only" and not texts:
        raise ApiError(422, "no_words", "'lexical': 'only' looks for words; ask with a text")
    if mode == "off" or not texts:
        return None
    return LexicalQuery(" ".join(texts), weight_of_words, mode == "only")


def _texts_of(parts: WeightedParts) -> list[str]:
    """The texts that a query asks for."""
    return [part.text for part, weight in parts if isinstance(part, TextQueryPart) and weight > 0]


def check_confidence(
    curves: Mapping[str, CalibrationCurve], parts: WeightedParts, options: SearchOptions, *, weighs: bool
) -> None:
    """Refuse a threshold on confidence where no calibration covers the query; evidence needs none."""
    if options.min_confidence is None or (weighs and side_of(parts) is not None):
        return
    targets = (options.target,) if options.target in SIDES else SIDES
    query_side = side_of(parts)
    if query_side is None or not any(pair_name(query_side, side, options.pool) in curves for side in targets):
        sentence = "no confidence is known for this: it needs one text, image or mesh, and a bundle that is "
        raise ApiError(422, "no_calibration", f"{sentence}calibrated for it; use 'min_score' instead")


def passes_thresholds(hit: Hit, options: SearchOptions) -> bool:
    """Whether a hit reaches the least score and the least confidence."""
    if options.min_score is not None and hit.score < options.min_score:
        return False
    least = options.min_confidence
    return least is None or (hit.confidence is not None and hit.confidence >= least)


CLEAR_CONFIDENCE = 0.5


def matches_well(hits: Sequence[Hit]) -> bool:
    """Whether anything stands out of what a meaningless query finds, and phrases in quotes are anywhere."""
    for hit in hits[:1]:
        sure = (hit.confidence or 0.0) >= CLEAR_CONFIDENCE
        return sure if hit.gain is None else hit.gain >= 0 or (hit.gain > -math.inf and sure)
    return False


@dataclass(frozen=True)
class SearchHits:
    """The hits of a search, and how they were found. Times are in seconds."""

    hits: list[Hit]
    version: int  # of the collection, at least
    encode_seconds: float
    search_seconds: float
    warnings: tuple[str, ...] = ()
    basis: ConfidenceBasis | None = None  # of their confidence
    matches_well: bool | None = None  # whether anything stands out, where the target is the item
    next: str | None = None  # the cursor of the following page
