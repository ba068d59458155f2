"""A hundred coloured things that ask for one another, and a search for one of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from index.collection import Collection
from index.search.query import Query
from multifold.types import Hit, Item, Kind, Observation, Vector
from tests.index.spaces import FEATURE, SPACE, Space
from tests.index.things import caption, view

THINGS = ("chair", "table", "lamp", "sofa", "shelf", "bed", "stool", "desk", "bench", "mirror")
COLOURS = ("red", "green", "blue", "yellow", "white", "black", "brown", "grey", "pink", "orange")


def coloured(seed: int = 0, *, views: float = 0.5, points: float | None = None) -> list[Item]:
    """Each has three captions; views, and perhaps points, lie this far from what the captions say."""
    random = np.random.default_rng(seed)
    items: list[Item] = []
    for colour in COLOURS:
        for thing in THINGS:
            centre = random.standard_normal(FEATURE)

            def near(amount: float, centre: np.ndarray = centre) -> np.ndarray:
                return (centre + amount * random.standard_normal(FEATURE)).astype(np.float32)

            texts = (f"a {colour} {thing}", f"the {thing} in {colour}", f"{colour} {thing} for sale")
            pictures = [view(n, near(views)) for n in range(2)]
            captions = [caption(n, near(0.1), text) for n, text in enumerate(texts)]
            form = [] if points is None else [Observation("points", 0, near(points))]
            items.append(Item(f"n{len(items):03}", (*captions, *pictures, *form), {"colour": colour}))
    return items


def without(item: Item, *kinds: Kind) -> Item:
    """The same without observations of some kinds."""
    return Item(item.id, tuple(o for o in item.observations if o.kind not in kinds), item.payload)


def direction(item: Item, space: Space = SPACE) -> Vector:
    """The vector of a query that means an item: its first caption."""
    return np.asarray(space.vectors(item.observations[0].feature[None])[0], np.float32)


def find(collection: Collection, vector: Vector, text: str | None = None, **changes: Any) -> list[Hit]:  # noqa: ANN401
    return collection.search(Query(vector, text=text, **changes))


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.id for hit in hits]
