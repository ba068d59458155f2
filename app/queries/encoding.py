"""The encoding of query parts into index vectors.

Parts are decoded and rendered in bounded pools and encoded in batches; vectors of recent parts are cached.
All collections of one encoder share one QueryEncoder."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from app.concurrency.batching import UNIT_SECONDS, Batcher
from app.concurrency.pools import RenderPool, ThreadPool
from app.encoding.observations import MeshData, ObservationEncoder
from app.errors import ApiError
from app.operations.telemetry import Telemetry
from app.queries.parts import ImageQueryPart, MeshQueryPart, QueryPart, TextQueryPart, VectorQueryPart
from app.settings import Settings
from multifold.types import KIND_OF_ASPECT, Aspect, Feature, Item, Pixels, Side, Vector, pool_mean, pool_side

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
    # Its vectors by the leg that has such, to compare like with like; a mesh has views' and points'.
    own: Mapping[Aspect, Vector] = field(default_factory=dict)


class QueryEncoder:
    """Encodes texts, pictures and meshes with one encoder; for one event loop."""

    def __init__(
        self, observer: ObservationEncoder, settings: Settings, telemetry: Telemetry, render_pool: RenderPool
    ) -> None:
        self._observer = observer
        self._cache: LruCache[Hashable, EncodedPart] = LruCache(settings.cache)
        if observer.encoder.reader is not None:
            observer.encoder.reader.kept = settings.cache
        room = settings.queue
        most = settings.batch
        watch = telemetry.watch
        self._texts = Batcher(
            self._encode_texts, most=most, room=room, watch=watch("text"), unit_seconds=UNIT_SECONDS
        )
        self._pictures = Batcher(
            self._encode_pictures, most=most, room=room, watch=watch("image"), unit_seconds=UNIT_SECONDS
        )
        self._decode_pool = ThreadPool(settings.decoders, room, watch("decode"))
        self._render_pool = render_pool

    async def encode(self, part: QueryPart) -> EncodedPart:
        """The feature and the index vector of a query part that is no item."""
        match part:
            case TextQueryPart(text):
                return await self._cached(text, lambda: self._texts.ask(text))
            case ImageQueryPart(data):
                return await self._cached(hashlib.sha256(data).digest(), lambda: self._image(data))
            case MeshQueryPart(mesh):
                key = hashlib.sha256(mesh.data).digest(), mesh.suffix
                return await self._cached(key, lambda: self._mesh(mesh))
            case VectorQueryPart(numbers, made_of):
                return self._from_vector(numbers, made_of)
            case _:
                raise TypeError(part)

    def of_item(self, item: Item, sides: Sequence[Side]) -> EncodedPart:
        """The observations of an item, of the first of these sides that it has."""
        for side in sides:
            pooled = pool_side(item.observations, side)
            if pooled is not None and not self._observer.encoder.encodes:  # compared as was asked for
                return self._from_feature(pooled)
            if pooled is not None:
                return replace(self._from_feature(pooled), own=self._own_vectors(item, side))
        raise ApiError(422, "no_such_side", f"the item {item.id!r} has no {' and no '.join(sides)}")

    async def _cached(self, key: Hashable, encode: Callable[[], Awaitable[EncodedPart]]) -> EncodedPart:
        encoded = self._cache.get(key)
        if encoded is None:
            encoded = await encode()
            self._cache.put(key, encoded)
        return encoded

    async def _image(self, data: bytes) -> EncodedPart:
        picture = await self._decode_pool.run(lambda: self._observer.look(data))
        return await self._pictures.ask(picture, admitted=True)

    async def _mesh(self, mesh: MeshData) -> EncodedPart:
        """Render a mesh from all cameras of the rig, and encode all that the bundle reads of it as one."""
        observer = self._observer
        drawn = await self._render_pool.run(lambda lane: observer.draw(mesh, lane), mesh.size)
        views = await self._decode_pool.run(lambda: observer.look_at_views(drawn.views))
        parts = await asyncio.gather(*(self._pictures.ask(view, admitted=True) for view in views))
        features = [part.feature for part in parts]
        pooled, legs = await self._decode_pool.run(lambda: observer.shape(features, drawn.points))
        encoded = self._from_feature(pooled)
        own: dict[Aspect, Vector] = {"shape": encoded.vector}
        own |= {leg: self._from_feature(one).vector for leg, one in legs.items()}
        return replace(encoded, warnings=drawn.report.notes, own=own)

    def _own_vectors(self, item: Item, side: Side) -> dict[Aspect, Vector]:
        """The vectors of one side of an item as the index has them: of views and of points by themselves."""
        aspects: tuple[Aspect, ...] = ("shape", "points") if side == "shape" else (side,)
        own: dict[Aspect, Vector] = {}
        for aspect in aspects:
            features = [one.feature for one in item.observations if one.kind == KIND_OF_ASPECT[aspect]]
            if features:
                own[aspect] = self._from_feature(pool_mean(np.stack(features))).vector
        return own

    def _from_vector(self, numbers: Sequence[float], made_of: Side) -> EncodedPart:
        """An index vector that was encoded before, of a text, a picture or a mesh."""
        if not self._observer.encoder.encodes:  # a feature is meant
            (feature,) = self._observer.check_features(made_of, [numbers])
            return self._from_feature(feature)
        dim = self._observer.encoder.dim
        if len(numbers) != dim:
            raise ApiError(422, "bad_vector", f"the vector has {len(numbers)} numbers; here they have {dim}")
        with np.errstate(over="ignore"):  # what overflows is refused by the index
            vector = np.asarray(numbers, np.float32)
        return EncodedPart(NO_FEATURE, vector, own={made_of: vector})

    def _from_feature(self, feature: Feature) -> EncodedPart:
        """A feature that was stored or pooled, with its index vector."""
        vector: Vector = self._observer.encoder.vectors(feature[None])[0]
        return EncodedPart(feature, vector)

    @property
    def cache_counts(self) -> tuple[int, int, int]:
        return self._cache.hits, self._cache.misses, len(self._cache)

    @property
    def waiting(self) -> dict[str, int]:
        return {
            "text": self._texts.waiting,
            "image": self._pictures.waiting,
            "decode": self._decode_pool.waiting,
        }

    def close(self) -> None:
        self._decode_pool.close()
        self._texts.close()
        self._pictures.close()

    def _encode_texts(self, texts: list[str]) -> list[EncodedPart]:
        encoder = self._observer.encoder
        encoded = encoder.texts(texts)
        rows = zip(encoded.features, encoder.vectors(encoded.features), encoded.cut, strict=True)
        return [
            EncodedPart(feature, vector, self._observer.cut_warnings((cut,)), {"text": vector})
            for feature, vector, cut in rows
        ]

    def _encode_pictures(self, pictures: Sequence[Pixels]) -> list[EncodedPart]:
        encoder = self._observer.encoder
        features = encoder.pixels(np.stack(pictures))
        rows = zip(features, encoder.vectors(features), strict=True)
        return [EncodedPart(feature, vector, own={"image": vector}) for feature, vector in rows]
