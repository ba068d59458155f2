"""What may not come in is named, and nothing of its call is written."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.collection import Collection, CollectionError
from index.contracts import QueryError
from index.store.item_rows import ItemError
from multifold.types import Item, Observation
from tests.index.spaces import FEATURE, Sphere, Unguarded
from tests.index.things import caption, feature, query, thing, view

GOOD = thing("good", np.random.default_rng(0))
SEEN = view(0, feature(1))


def item(*observations: Observation) -> Item:
    return Item("bad", observations)


BAD: dict[str, tuple[Item, str]] = {
    "no id": (Item("", (SEEN,)), "1 to 512 characters"),
    "long id": (Item("x" * 513, (SEEN,)), "1 to 512 characters"),
    "NUL in id": (Item("a\0b", (SEEN,)), "cannot be stored"),
    "half a letter in id": (Item("a\ud800", (SEEN,)), "cannot be stored"),
    "nothing seen": (Item("bad", ()), "'bad' has 0 observations"),
    "not a number": (item(view(0, feature(np.nan))), "'bad': view 0 .*not finite"),
    "infinite": (item(SEEN, view(7, feature(np.inf))), "'bad': view 7 .*not finite"),
    "short": (item(view(0, feature()[1:])), r"'bad': view 0 .*shape \(3,\).*\(4,\)"),
    "empty": (item(view(0, feature()[:0])), r"'bad': view 0 .*shape \(0,\)"),
    "no caption": (item(caption(0, feature(1), "")), "'bad': caption 0 has no text"),
    "blank caption": (item(caption(0, feature(1), " \n")), "'bad': caption 0 has no text"),
    "NUL in caption": (item(caption(0, feature(1), "a\0")), "'bad': caption 0 .*cannot be stored"),
    "twice": (item(SEEN, SEEN), "'bad': view 0 stands twice"),
    "negative index": (item(view(-1, feature(1))), "'bad': view -1 has a negative index"),
    "huge": (item(view(0, np.full(FEATURE, 3e38, np.float32))), "beyond"),
    "payload": (Item("bad", (SEEN,), {"x": float("nan")}), "'bad': the payload is not a JSON object"),
    "payload of objects": (Item("bad", (SEEN,), {"x": object()}), "'bad': the payload is not a JSON object"),
}


class Stretched(Sphere):
    """A sphere that forgets to divide."""

    def vectors(self, features: np.ndarray) -> np.ndarray:
        return features


@pytest.mark.parametrize(("bad", "reason"), BAD.values(), ids=list(BAD))
def test_a_bad_item_is_named_and_nothing_is_written(
    tmp_path: Path, database: str | None, bad: Item, reason: str
) -> None:
    with Collection.open(tmp_path, Stretched(FEATURE), database=database) as collection:
        collection.upsert([thing("old", np.random.default_rng(1))])
        with pytest.raises(ItemError, match=reason):
            collection.upsert([GOOD, bad, thing("also good", np.random.default_rng(2))])
        assert collection.ids() == ["old"]
        assert collection.version == 1
        assert collection.upsert([GOOD]) == 2


def test_the_first_items_settle_the_length(tmp_path: Path, database: str | None) -> None:
    short = Item("short", (view(0, feature(1)[:2]),))
    with Collection.open(tmp_path, Stretched(FEATURE), database=database) as collection:
        with pytest.raises(ItemError, match=r"'short'.*shape \(2,\)"):
            collection.upsert([GOOD, short])
        assert collection.upsert([GOOD]) == 1
    with Collection.open(tmp_path, Stretched(FEATURE), database=database) as collection:
        with pytest.raises(ItemError, match=r"'short'.*shape \(2,\)"):
            collection.upsert([short])
        assert collection.ids() == ["good"]


def test_one_item_stands_once_in_a_call(tmp_path: Path, database: str | None) -> None:
    with Collection.open(tmp_path, Sphere(FEATURE), database=database) as collection:
        with pytest.raises(ItemError, match="'good' stands twice"):
            collection.upsert([GOOD, GOOD])
        assert collection.count() == 0


def test_a_feature_without_a_vector_is_refused(tmp_path: Path, database: str | None) -> None:
    cancelling = Item(
        "nothing", (view(0, feature(1)), view(1, feature(-1)))
    )  # fine one by one, zero on average
    with Collection.open(tmp_path, Unguarded(FEATURE), database=database) as collection:
        with pytest.raises(ItemError, match=r"'nothing'.*no usable vector of its shape features"):
            collection.upsert([GOOD, cancelling])
        assert collection.count() == 0


def test_a_list_of_ids_is_not_a_word(tmp_path: Path, database: str | None) -> None:
    with Collection.open(tmp_path, Sphere(FEATURE), database=database) as collection:
        collection.upsert([Item("a", (SEEN,))])
        with pytest.raises(CollectionError, match=r"\['abc'\]"):
            collection.delete("abc")
        assert collection.ids() == ["a"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"vector": feature()[1:]}, r"shape \(3,\)"),
        ({"vector": feature(np.nan)}, "not finite"),
        ({"vector": feature(np.inf)}, "not finite"),
        ({"vector": feature(1e16)}, "beyond"),
        ({"limit": 0}, "limit"),
        ({"limit": -5}, "limit"),
    ],
)
def test_a_bad_query_is_refused(
    tmp_path: Path, database: str | None, changes: dict[str, Any], reason: str
) -> None:
    with Collection.open(tmp_path, Sphere(FEATURE), database=database) as collection:
        collection.upsert([GOOD])
        with pytest.raises(QueryError, match=reason):
            collection.search(replace(query(feature(1)), **changes))
        assert len(collection.search(query(feature(1), limit=10**9, pool="max"))) == 1
