"""Keys of payloads, and what stands under them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from index.collection import Collection
from index.store.filters import parse_filter
from index.store.keys import KeyValues, describe_keys, distinct_texts, extreme_of
from multifold.types import Item
from tests.index.spaces import FEATURE
from tests.index.things import view

Fill = Callable[..., None]


@pytest.fixture
def fill(collection: Collection) -> Fill:
    """What writes items with these payloads."""

    def write(*payloads: dict[str, Any]) -> None:
        feature = np.ones(FEATURE, np.float32)
        collection.upsert([Item(f"i{n}", (view(0, feature),), one) for n, one in enumerate(payloads)])

    return write


def test_keys_are_told_with_what_stands_under_them(collection: Collection, fill: Fill) -> None:
    assert collection.read(describe_keys) == {}
    fill(
        {"made": "2020-05-01", "size": {"width": 2, "fits": True}, "tags": ["b", "a"]},
        {"made": "2024", "size": {"width": "wide"}},
    )
    assert collection.read(describe_keys) == {
        "made": KeyValues(numbers=False, truths=False, texts=("2020-05-01", "2024")),
        "size.fits": KeyValues(numbers=False, truths=True, texts=None),
        "size.width": KeyValues(numbers=True, truths=False, texts=("wide", "wide")),
        "tags": KeyValues(numbers=False, truths=False, texts=("a", "b")),
    }


def test_deep_keys_hide_no_others(collection: Collection, fill: Fill) -> None:
    deep = {f"thing {number}": {"colour": "red"} for number in range(300)}
    fill({"facts": deep, "measured": {"height": 1.5}})
    found = collection.read(describe_keys)
    assert found["measured.height"].numbers
    assert "facts.thing 7.colour" not in found


def test_each_text_of_a_key_is_told_once(collection: Collection, fill: Fill) -> None:
    fill({"by": "Kay"}, {"by": ["Ann", "Kay"]}, {"by": 3}, {"other": "Zoe"})
    assert collection.read(distinct_texts, ["by", "none"]) == {"by": ["Ann", "Kay"], "none": []}


def test_the_extreme_is_that_of_the_greatest_number_of_each_item(collection: Collection, fill: Fill) -> None:
    fill({"w": 1, "h": 4, "c": "x"}, {"w": 3, "h": 2, "c": "y"}, {"w": 9, "c": "x"}, {"c": "x"})
    keys = ["w", "h"]
    assert collection.read(extreme_of, keys, None, greatest=False) == 3
    assert collection.read(extreme_of, keys, None, greatest=True) == 9
    assert collection.read(extreme_of, keys, parse_filter({"c": "x"}), greatest=False) == 4
    assert collection.read(extreme_of, ["none"], None, greatest=True) is None
