"""Whether two collections hold the same: every item is compared, to the last bits of its vectors."""

from collections.abc import Iterator
from itertools import zip_longest

import numpy as np

from index.collection import Collection
from multifold.bundle.encoder import Encoder
from multifold.types import Features, Item

PAGE = 500
LAST_BITS = 64  # steps between neighbouring numbers of a vector's largest: batches of other sizes differ so


def differences(one: Collection, other: Collection, encoder: Encoder) -> Iterator[str]:
    """A sentence for each item that differs, and for each picture that is damaged."""
    for left, right in zip_longest(_items(one), _items(other)):
        if left is None or right is None or left.id != right.id:
            yield f"{_id(left)} stands where the other has {_id(right)}"
            return
        if (what := _difference(left, right, encoder)) is not None:
            yield f"{left.id} has {what}"
        for key in (*left.files, *(seen.blob for seen in left.observations if seen.blob is not None)):
            if one.blobs.get(key) != other.blobs.get(key):  # reading checks the hash
                yield f"{left.id} has another original {key}"


def _items(collection: Collection) -> Iterator[Item]:
    after = None
    while page := collection.scroll(after, PAGE):
        yield from page
        after = page[-1].id


def _id(item: Item | None) -> str:
    return "nothing" if item is None else item.id


def _difference(one: Item, other: Item, encoder: Encoder) -> str | None:
    if dict(one.payload) != dict(other.payload):
        return "another payload"
    if one.files != other.files:
        return "other originals"
    known = [[(o.kind, o.index, o.text, o.blob) for o in item.observations] for item in (one, other)]
    if known[0] != known[1]:
        return "other observations"
    features = [np.stack([o.feature for o in item.observations]) for item in (one, other)]
    if not is_close(*features):
        return "other features"
    return None if is_close(*map(encoder.vectors, features)) else "other vectors"


def is_close(one: Features, other: Features) -> bool:
    """Whether two sets of vectors differ by their last bits at most."""
    largest = np.maximum(np.abs(one), np.abs(other)).max(axis=1, keepdims=True)
    return bool((np.abs(one - other) <= LAST_BITS * np.spacing(largest)).all())
