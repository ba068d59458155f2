"""Finds items that show the same, by thumbnails of their pictures, whatever size and quality these have.

A thumbnail is 16 × 16 means of the colours. Pictures at half their size as JPEG of quality 50 differ by 1.4
of 255 grey levels on average, and 19 at most; two different pieces of 320 generated ones by 3.0 and 88 at
least, seen from six sides. Items are the same if all their pictures are, one by one: a mesh in another place,
scale or format is the same, a rotated one is another.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Int16
from PIL import Image

from index.collection import Collection
from multifold.bundle.preprocess import decode, flatten
from multifold.errors import MultifoldError
from multifold.types import KIND_OF, Hit, Kind

THUMBNAIL_SIDE = 16
MOST_MEAN_DIFFERENCE = 2.5
MOST_DIFFERENCE = 40
CACHED_THUMBNAILS = 20_000  # pictures of a collection

ThumbnailStack = Int16[np.ndarray, "p s s 3"]


class Deduplicator:
    """Folds hits that show the same. Safe to use from several threads."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        read = collection.blobs.get
        self._thumbnail = lru_cache(CACHED_THUMBNAILS)(lambda key: comparison_thumbnail(decode(read(key))))

    def fold(self, hits: Sequence[Hit]) -> list[tuple[Hit, list[Hit]]]:
        """Hits that show something new, in their order, each with those that show the same."""
        folded: list[tuple[Hit, list[Hit]]] = []
        by_count: dict[int, list[tuple[ThumbnailStack, list[Hit]]]] = {}  # by the number of pictures
        for hit in hits:
            stack = self._thumbnails(hit)
            if stack is None:
                folded.append((hit, []))
                continue
            others = by_count.setdefault(len(stack), [])
            same = next((same for other, same in others if shows_same(stack, other)), None)
            if same is not None:
                same.append(hit)
            else:
                folded.append((hit, []))
                others.append((stack, folded[-1][1]))
        return folded

    def _thumbnails(self, hit: Hit) -> np.ndarray | None:
        """All pictures of the side that was found, or all of the item if that was a caption."""
        item = self._collection.get(hit.id)
        kinds: tuple[Kind, ...] = ("photo", "view") if hit.side == "text" else (KIND_OF[hit.side],)
        keys = item.pictures(*kinds) if item else ()
        try:
            return np.stack([self._thumbnail(key) for key in keys]) if keys else None
        except MultifoldError:  # a picture that is lost or damaged shows nothing
            return None


def comparison_thumbnail(picture: Image.Image) -> Int16[np.ndarray, "s s 3"]:
    small = flatten(picture).resize((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Image.Resampling.BOX)
    return np.asarray(small).astype(np.int16)


def shows_same(one: ThumbnailStack, other: ThumbnailStack) -> bool:
    differ = np.abs(one - other)
    return bool(differ.max() <= MOST_DIFFERENCE and differ.mean(axis=(1, 2, 3)).max() <= MOST_MEAN_DIFFERENCE)
