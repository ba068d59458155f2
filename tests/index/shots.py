"""A collection worth a snapshot, and what it holds."""

from dataclasses import replace

import numpy as np

from index.collection import Collection
from multifold.types import Item
from tests.index.things import caption, feature, same, thing, view


def chair(collection: Collection, picture: bytes = b"a picture") -> Item:
    """An item with a picture."""
    key = collection.blobs.put(picture, ".webp")
    return Item("chair", (replace(view(0, feature(1)), blob=key), caption(0, feature(0, 1))), {"price": 3})


def furnish(collection: Collection) -> None:
    """Twenty items, one of them with a picture, and one that is gone."""
    rng = np.random.default_rng(0)
    plain = [Item(f"item {n}", thing("", rng, views=0, captions=2).observations) for n in range(20)]
    collection.upsert([chair(collection), *plain])
    collection.delete(["item 7"])


def held(collection: Collection) -> dict[str, Item]:
    return {name: item for name in collection.ids() if (item := collection.get(name)) is not None}


def equal(left: dict[str, Item], right: dict[str, Item]) -> bool:
    return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
