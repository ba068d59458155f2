"""From what people ask with to index vectors: decode or draw in bounded pools, encode in batches.

The vectors of what was asked lately are remembered. All collections of one encoder share its perception.
"""

import asyncio
import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from app.batching import Batcher
from app.errors import ApiError
from app.lru import Lru
from app.observer import Mesh, Observer, Squares
from app.pools import Pool
from app.settings import Settings
from app.telemetry import Telemetry
from index.collection import Collection
from multifold.types import SIDE_OF, Feature, Pixels, Side, Vector, pool_mean

NOTHING: Feature = np.empty(0, np.float32)


@dataclass(frozen=True, eq=False)
class Sensed:
    """What the encoder makes of something, and what its sender should know about that."""

    feature: Feature
    vector: Vector
    warnings: tuple[str, ...] = ()


class Perception:
    """Reads words, looks at pictures, draws meshes with one encoder; for one event loop."""

    def __init__(self, observer: Observer, settings: Settings, telemetry: Telemetry, draw: Pool) -> None:
        self._observer = observer
        self._known: Lru[Hashable, Sensed] = Lru(settings.cache)
        room, most = settings.queue, settings.batch
        watch = telemetry.watch
        self._words = Batcher(self._read, most=most, room=room, watch=watch("text"))
        self._pictures = Batcher(self._see, most=most, room=room, watch=watch("image"))
        self._decode = Pool("decode", settings.decoders, room, watch("decode"))
        self._draw = draw

    async def text(self, text: str) -> Sensed:
        """Read words."""
        known = self._known.get(text)
        if known is None:
            known = await self._words.ask(text)
            self._known.put(text, known)
        return known

    async def image(self, data: bytes) -> Sensed:
        """Look at a picture."""
        key = hashlib.sha256(data).digest()
        known = self._known.get(key)
        if known is None:
            picture = await self._decode.run(lambda: self._observer.look(data))
            known = await self._pictures.ask(picture, admitted=True)
            self._known.put(key, known)
        return known

    async def mesh(self, mesh: Mesh) -> Sensed:
        """Draw a mesh and look at it from all sides of the rig."""
        key = (hashlib.sha256(mesh.data).digest(), mesh.suffix)
        known = self._known.get(key)
        if known is None:
            known = await self._look_around(await self._draw.run(lambda: self._views(mesh)))
            self._known.put(key, known)
        return known

    def given(self, numbers: Sequence[float]) -> Sensed:
        """An index vector that is there already."""
        dim = self._observer.encoder.dim
        if len(numbers) != dim:
            raise ApiError(422, "bad_vector", f"the vector has {len(numbers)} numbers; here they have {dim}")
        with np.errstate(over="ignore"):  # what overflows is refused by the index
            return Sensed(NOTHING, np.asarray(numbers, np.float32))

    def of(self, feature: Feature) -> Sensed:
        """What is sensed of a feature that is there already."""
        vector: Vector = self._observer.encoder.vectors(feature[None])[0]
        return Sensed(feature, vector)

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

    async def _look_around(self, views: Squares) -> Sensed:
        seen = await asyncio.gather(*(self._pictures.ask(view, admitted=True) for view in views))
        return self.of(pool_mean(np.stack([one.feature for one in seen])))

    def _views(self, mesh: Mesh) -> Squares:
        return self._observer.look_at_views(self._observer.draw(mesh))

    def _read(self, texts: list[str]) -> list[Sensed]:
        encoder = self._observer.encoder
        encoded = encoder.texts(texts)
        found = zip(encoded.features, encoder.vectors(encoded.features), encoded.cut, strict=True)
        return [
            Sensed(feature, vector, self._observer.cut_warnings((cut,))) for feature, vector, cut in found
        ]

    def _see(self, pictures: Sequence[Pixels]) -> list[Sensed]:
        encoder = self._observer.encoder
        features = encoder.pixels(np.stack(pictures))
        return [Sensed(*both) for both in zip(features, encoder.vectors(features), strict=True)]


class Senses:
    """What one collection is asked with: seeing and reading are its encoder's, recalling is its own."""

    def __init__(self, perception: Perception, collection: Collection, quick: Pool) -> None:
        self.text, self.image, self.mesh = perception.text, perception.image, perception.mesh
        self.given, self._of = perception.given, perception.of
        self._collection, self._quick = collection, quick

    async def item(self, name: str, sides: Sequence[Side]) -> Sensed:
        """Recall the first of these sides that an item has."""
        return await self._quick.run(lambda: self._recalled(name, sides))

    def _recalled(self, name: str, sides: Sequence[Side]) -> Sensed:
        item = self._collection.get(name)
        if item is None:
            raise ApiError(404, "not_found", f"there is no item {name!r}")
        for side in sides:
            seen = [one.feature for one in item.observations if SIDE_OF[one.kind] == side]
            if seen:
                return self._of(pool_mean(np.stack(seen)))
        raise ApiError(422, "no_such_side", f"the item {name!r} has no {' and no '.join(sides)}")
