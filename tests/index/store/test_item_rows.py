"""What may not come in is named, and nothing of its call is written; what payloads and features become."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.collection import Collection, CollectionError
from index.store.filters import parse_filter
from index.store.item_rows import ItemError, facts_of, pool_features, shorten_text
from index.store.schema import LONGEST_TEXT
from index.store.store import check_items
from multifold.types import Item, Observation, pool_mean
from tests.index.spaces import FEATURE, Sphere, Unguarded
from tests.index.things import caption, feature, thing, view

GOOD = thing("good", np.random.default_rng(0))
SEEN = view(0, feature(1))


def item(*observations: Observation, **payload: Any) -> Item:  # noqa: ANN401
    return Item("bad", observations, payload)


BAD: dict[str, tuple[Item, str]] = {
    "no id": (Item("", (SEEN,)), "1 to 512 characters"),
    "long id": (Item("x" * 513, (SEEN,)), "1 to 512 characters"),
    "NUL in id": (Item("a\0b", (SEEN,)), "cannot be stored"),
    "half a letter in id": (Item("a\ud800", (SEEN,)), "cannot be stored"),
    "nothing seen": (item(), "'bad' has 0 observations"),
    "not a number": (item(view(0, feature(np.nan))), "'bad': view 0 .*not finite"),
    "infinite": (item(SEEN, view(7, feature(np.inf))), "'bad': view 7 .*not finite"),
    "short": (item(view(0, feature()[1:])), r"'bad': view 0 .*shape \(3,\).*\(4,\)"),
    "empty": (item(view(0, feature()[:0])), r"'bad': view 0 .*shape \(0,\)"),
    "no caption": (item(caption(0, feature(1), "")), "'bad': caption 0 has no text"),
    "blank caption": (item(caption(0, feature(1), " \n")), "'bad': caption 0 has no text"),
    "NUL in caption": (item(caption(0, feature(1), "a\0")), "'bad': caption 0 .*cannot be stored"),
    "twice": (item(SEEN, SEEN), "'bad': view 0 stands twice"),
    "negative index": (item(view(-1, feature(1))), "'bad': view -1 has a negative index"),
    "payload": (item(SEEN, x=float("nan")), "'bad': the payload is not a JSON object"),
    "payload of objects": (item(SEEN, x=object()), "'bad': the payload is not a JSON object"),
    "values": (
        item(SEEN, **{f"k{n}": list(range(900)) for n in range(5)}),
        "'bad': the payload has 4505 values",
    ),
    "item twice": (GOOD, "'good' stands twice"),
}


@pytest.mark.parametrize(("bad", "reason"), BAD.values(), ids=list(BAD))
def test_what_is_not_fit_to_be_stored_is_named(bad: Item, reason: str) -> None:
    with pytest.raises(ItemError, match=reason):
        check_items([GOOD, bad], FEATURE)


def test_a_nest_is_cut_short() -> None:
    nest: Any = []
    for _ in range(100_000):
        nest = [nest]
    with pytest.raises(ItemError, match="not a JSON object"):
        check_items([item(SEEN, x=nest)], FEATURE)


class Stretched(Sphere):
    """A sphere that forgets to divide."""

    def vectors(self, features: np.ndarray) -> np.ndarray:
        return features


def test_of_a_call_with_a_bad_item_nothing_is_written(tmp_path: Path, database: str | None) -> None:
    """Also where the geometry makes no vector of it, or its length is not that of the first."""
    short, huge = item(view(0, feature(1)[:2])), item(view(0, np.full(FEATURE, 3e38, np.float32)))
    with Collection.open(tmp_path, Stretched(FEATURE), database=database) as collection:
        for bad in (short, huge):
            with pytest.raises(ItemError):
                collection.upsert([GOOD, bad])
        assert (collection.ids(), collection.version) == ([], 0)
        assert collection.upsert([GOOD]) == 1
    with Collection.open(tmp_path, Stretched(FEATURE), database=database) as collection:
        with pytest.raises(ItemError, match=r"'bad'.*shape \(2,\)"):
            collection.upsert([short])
        assert collection.ids() == ["good"]
        with pytest.raises(CollectionError, match=r"\['good'\]"):
            collection.delete("good")  # a word is no list of ids


def test_features_that_cancel_each_other_have_no_vector(tmp_path: Path) -> None:
    cancelling = item(view(0, feature(1)), view(1, feature(-1)))  # fine one by one, zero on average
    with Collection.open(tmp_path, Unguarded(FEATURE)) as collection:
        with pytest.raises(ItemError, match=r"'bad'.*no usable vector of its shape features"):
            collection.upsert([GOOD, cancelling])
        assert collection.count() == 0


def test_pooling_in_bulk_is_pooling_one_by_one() -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 9, 60)
    editions = np.repeat(np.arange(60) * 3 + 1, sizes)
    features = (rng.standard_normal((sizes.sum(), 33)) * 10.0 ** rng.integers(-6, 6, 33)).astype(np.float32)
    names, means = pool_features(editions, features)
    assert names.tolist() == (np.arange(60) * 3 + 1).tolist()
    for name, mean in zip(names, means, strict=True):
        np.testing.assert_allclose(mean, pool_mean(features[editions == name]), rtol=1e-6)


def test_long_texts_stay_apart() -> None:
    texts = ["a" * n for n in (LONGEST_TEXT - 1, LONGEST_TEXT, LONGEST_TEXT + 1)]
    short = [shorten_text(text) for text in texts]
    assert len({*short, shorten_text(short[1])}) == 4
    assert max(map(len, short)) == LONGEST_TEXT


def test_values_that_no_filter_can_reach_are_still_kept(collection: Collection) -> None:
    deep: Any = "bottom"
    for _ in range(50):
        deep = {"d": deep}
    odd = {"a\0": 1, "k" * 300: 2, "x": "a\0b", "big": 10**400, "long": list(range(1001)), "deep": deep}
    collection.upsert([Item("odd", (SEEN,), odd)])
    found = collection.get("odd")
    assert found is not None
    assert found.payload == json.loads(json.dumps(odd))
    for key in ("x", "big", "long", "deep"):
        assert collection.count(parse_filter({key: {"exists": True}})) == 1
    assert collection.count(parse_filter({"long": 3})) == 0
    assert len(facts_of(odd)) == 4 + 15
