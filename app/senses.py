"""From what people ask with to index vectors: decode or draw in bounded pools, encode in batches.

The vectors of what was asked lately are remembered.
"""

import asyncio
import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from app.batching import Batcher
from app.lru import Lru
from app.observer import Observer, Squares
from app.pools import Pool
from app.settings import Settings
from app.uploads import Mesh
from multifold.types import Feature, Pixels, Vector, pool_mean


@dataclass(frozen=True, eq=False)
class Sensed:
    """What the encoder makes of something, and what its sender should know about that."""

    feature: Feature
    vector: Vector
    warnings: tuple[str, ...] = ()


class Senses:
    """Reads words, looks at pictures, draws meshes; for one event loop."""

    def __init__(self, observer: Observer, settings: Settings, draw: Pool) -> None:
        self._observer = observer
        self._known: Lru[Hashable, Sensed] = Lru(settings.cache)
        room, most = settings.queue, settings.batch
        self._words = Batcher(self._read, most=most, room=room)
        self._pictures = Batcher(self._see, most=most, room=room)
        self._decode, self._draw = Pool("decode", settings.decoders, room), draw

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

    def close(self) -> None:
        """Finish what was accepted."""
        self._decode.close()
        self._words.close()
        self._pictures.close()

    async def _look_around(self, views: Squares) -> Sensed:
        seen = await asyncio.gather(*(self._pictures.ask(view, admitted=True) for view in views))
        feature = pool_mean(np.stack([one.feature for one in seen]))
        return Sensed(feature, self._observer.encoder.vectors(feature[None])[0])

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
