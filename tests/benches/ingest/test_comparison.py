"""Two collections are compared: no difference is overlooked."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benches.ingest.comparison import differences, is_close
from index.collection import Collection
from multifold.bundle.encoder import Encoder, captions_of, pictures_of
from multifold.types import Item
from tests.app.house import png


@pytest.fixture
def twins(tmp_path: Path, encoder: Encoder) -> Iterator[tuple[Collection, Collection]]:
    """Two collections of one item each."""
    with (
        Collection.open(tmp_path / "one", encoder) as one,
        Collection.open(tmp_path / "other", encoder) as other,
    ):
        for collection in (one, other):
            collection.upsert([thing(collection, encoder)])
        yield one, other


def thing(collection: Collection, encoder: Encoder) -> Item:
    texts = ["a red box", "a thing"]
    key = collection.blobs.put(png("red"), ".png")
    seen = pictures_of("photo", encoder.texts(["red"]).features, [key])
    return Item("red", (*captions_of(texts, encoder.texts(texts).features), *seen), {"a": 1}, (key,))


def nudged(item: Item, by: float) -> Item:
    first, *rest = item.observations
    return replace(item, observations=(replace(first, feature=first.feature * np.float32(1 + by)), *rest))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda item: [nudged(item, 1e-6)], []),
        (lambda item: [replace(item, payload={"a": 2})], ["red has another payload"]),
        (lambda item: [replace(item, files=())], ["red has other originals"]),
        (lambda item: [replace(item, observations=item.observations[1:])], ["red has other observations"]),
        (lambda item: [nudged(item, 1e-3)], ["red has other features"]),
        (lambda item: [replace(item, id="redder")], ["red stands where the other has redder"]),
        (lambda _: [], ["red stands where the other has nothing"]),
    ],
)
def test_no_difference_is_overlooked(
    twins: tuple[Collection, Collection],
    encoder: Encoder,
    change: Callable[[Item], list[Item]],
    told: list[str],
) -> None:
    one, other = twins
    assert list(differences(one, other, encoder)) == []
    other.delete(["red"])
    other.upsert(change(thing(other, encoder)))
    assert list(differences(one, other, encoder)) == told


def test_last_bits_are_close_and_more_is_not() -> None:
    one = np.array([[1.0, 1e-9, 0.0]], np.float32)
    assert is_close(one, one + np.float32(1e-6))
    assert not is_close(one, one + np.float32(1e-4))
    assert not is_close(one * np.float32(1e-9), one * np.float32(1.1e-9))
