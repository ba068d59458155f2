"""Views for training: as pixels in one file, or pictures that stay in their shards until a step asks.

What does not fit a folder does not fit as pixels either. So pictures in tar shards are opened anew in every
step that takes them, by as many threads as there are processors; meshes are rendered once, as ever.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Int64, UInt8

from multifold.bundle import ViewSpec
from multifold.machine import ahead, cores
from multifold.manifest import Entry
from multifold.packed import is_packed
from multifold.preprocess import ImageSpec
from training.data.views import count, load_views, opened

Places: TypeAlias = Int64[np.ndarray, " b"]


class Unopened:
    """Reads like an array [i v h w 3] where items and views are chosen one by one."""

    def __init__(self, entries: Sequence[Entry], views: ViewSpec, image: ImageSpec, cache: Path) -> None:
        meshed = [place for place, entry in enumerate(entries) if entry.mesh is not None]
        self.entries, self.image = entries, image
        self.shape = (len(entries), count(entries, views), image.size, image.size, 3)
        drawn = [entries[place] for place in meshed]
        self._drawn = load_views(drawn, views, image, cache) if drawn else None
        self._rows = {place: row for row, place in enumerate(meshed)}

    def __getitem__(self, chosen: tuple[Places, Places]) -> UInt8[np.ndarray, "b h w 3"]:
        """These views of these items."""
        pairs = zip(*(places.tolist() for places in chosen), strict=True)
        return np.stack([*ahead(self._one, pairs, cores(), 2 * cores() + 1)])

    def _one(self, pair: tuple[int, int]) -> UInt8[np.ndarray, "h w 3"]:
        item, view = pair
        if self._drawn is not None and item in self._rows:
            drawn: UInt8[np.ndarray, "h w 3"] = self._drawn[self._rows[item], view % self._drawn.shape[1]]
            return drawn
        images = self.entries[item].images
        return opened(images[view % len(images)], self.image)


def learned_views(
    entries: Sequence[Entry], views: ViewSpec, image: ImageSpec, cache: Path
) -> UInt8[np.ndarray, "i v h w 3"] | Unopened:
    """What a training sees of its items."""
    if any(is_packed(path) for entry in entries if entry.mesh is None for path in entry.images):
        return Unopened(entries, views, image, cache)
    return np.asarray(load_views(entries, views, image, cache))
