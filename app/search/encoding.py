"""The encoding of query parts into index vectors.

Parts are decoded and rendered in bounded pools and encoded in batches; vectors of recent parts are cached.
All collections of one encoder share one QueryEncoder."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from app.concurrency.batching import Batcher
from app.concurrency.pools import RenderPool, ThreadPool
from app.encoding.observations import MeshData, ObservationEncoder
from app.errors import ApiError
from app.operations.telemetry import Telemetry
from app.search.parts import (
    ImageQueryPart,
    ItemQueryPart,
    MeshQueryPart,
    QueryPart,
    TextQueryPart,
    VectorQueryPart,
)
from app.settings import Settings
from index.collection import Collection
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
            encoded = replace(self.from_feature(pooled), warnings=drawn.report.notes)
            own: dict[Aspect, Vector] = {"shape": encoded.vector}
            own |= {leg: self.from_feature(one).vector for leg, one in legs.items()}
            encoded = replace(encoded, own=own)
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
            EncodedPart(feature, vector, self._observer.cut_warnings((cut,)), {"text": vector})
            for feature, vector, cut in rows
        ]

    def _encode_pictures(self, pictures: Sequence[Pixels]) -> list[EncodedPart]:
        encoder = self._observer.encoder
        features = encoder.pixels(np.stack(pictures))
        rows = zip(features, encoder.vectors(features), strict=True)
        return [EncodedPart(feature, vector, own={"image": vector}) for feature, vector in rows]


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
                encoded = self._encoder.from_feature(pooled)
                return replace(encoded, own=self._own_vectors(item, side))
        raise ApiError(422, "no_such_side", f"the item {name!r} has no {' and no '.join(sides)}")

    def _own_vectors(self, item: Item, side: Side) -> dict[Aspect, Vector]:
        """The vectors of one side of an item as the index has them: of views and of points by themselves."""
        aspects: tuple[Aspect, ...] = ("shape", "points") if side == "shape" else (side,)
        own: dict[Aspect, Vector] = {}
        for aspect in aspects:
            features = [one.feature for one in item.observations if one.kind == KIND_OF_ASPECT[aspect]]
            if features:
                own[aspect] = self._encoder.from_feature(pool_mean(np.stack(features))).vector
        return own
