"""Items in pages and orders, facets and spans of what their payloads hold."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.collection import Collection
from index.contracts import QueryError
from index.store import browse
from index.store.browse import ItemOrderError, NumberSpan
from index.store.filters import Filter, parse_filter
from multifold.types import Item
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import caption, feature, same, view


def fill(collection: Collection, payloads: list[dict[str, Any]]) -> list[Item]:
    rng = np.random.default_rng(3)
    items = [
        Item(f"i{n:02}", (view(0, rng.standard_normal(FEATURE).astype(np.float32)),), payload)
        for n, payload in enumerate(payloads)
    ]
    collection.upsert(items)
    return items


@pytest.fixture
def shop(collection: Collection) -> list[Item]:
    """Fifty items."""
    tags = [["all", "all", f"t{n % 5}"] for n in range(50)]
    return fill(collection, [{"n": n, "even": n % 2 == 0, "tags": tags[n]} for n in range(50)])


def test_pages_follow_each_other(collection: Collection, shop: list[Item]) -> None:
    seen: list[Item] = []
    while page := collection.scroll(seen[-1].id if seen else None, 7, parse_filter({"even": True})):
        assert len(page) <= 7
        seen += page
    wanted = [item for item in shop if item.payload["even"]]
    assert all(same(left, right) for left, right in zip(seen, wanted, strict=True))
    assert [item.id for item in collection.scroll("i4")] == [f"i{n}" for n in range(40, 50)]
    for limit in (0, 1001):
        with pytest.raises(QueryError, match="1 to 1000"):
            collection.scroll(limit=limit)


def counted(collection: Collection, key: str, where: Any = None, limit: int = 100) -> list[tuple[Any, int]]:  # noqa: ANN401
    return [(one.value, one.count) for one in collection.facets([key], where, limit)[key]]


def test_observations_are_counted_in_words() -> None:
    counts = browse.describe_observations({"caption": 2, "photo": 0, "view": 6, "points": 320})
    assert counts == "2 captions, 6 views, 320 points"


def test_facets_count_items(collection: Collection, shop: list[Item]) -> None:
    assert counted(collection, "tags", limit=3) == [("all", 50), ("t0", 10), ("t1", 10)]
    assert counted(collection, "even") == [(False, 25), (True, 25)]
    assert counted(collection, "n", limit=3) == [(0, 1), (1, 1), (2, 1)]
    assert counted(collection, "nothing") == []
    assert counted(collection, "even", parse_filter({"n": {"lt": 10.5}, "tags": "t3"}))[0] == (False, 1)
    assert counted(collection, "even", ["i01", "i03", "i04", "gone"]) == [(False, 2), (True, 1)]
    assert counted(collection, "even", []) == []
    with pytest.raises(QueryError, match="list of up to 64 keys"):
        collection.facets("tags")


def test_facets_of_several_kinds_stand_together(collection: Collection) -> None:
    values = [1, 1.0, True, "1", "1", "1", False, [False, 1], None, {"deep": 1}]
    fill(collection, [{"x": value} for value in values])
    found = [(type(value), value, count) for value, count in counted(collection, "x")]
    assert found == [(int, 1, 3), (str, "1", 3), (bool, False, 2), (bool, True, 1)]
    assert len(counted(collection, "x", limit=2)) == 2


def test_spans_of_numbers(collection: Collection) -> None:
    values = [3, -1.5, [7, 2], True, "9", None, {"deep": 1e300}]
    fill(collection, [{"x": value, "n": n} for n, value in enumerate(values)])
    for where, wanted in (
        (None, {"x": (-1.5, 7.0, 3), "n": (0.0, 6.0, 7), "x.deep": (1e300, 1e300, 1)}),
        (parse_filter({"n": {"gte": 2, "lt": 5}}), {"x": (2.0, 7.0, 1), "n": (2.0, 4.0, 3)}),
        (parse_filter({"x": "9"}), {"n": (4.0, 4.0, 1)}),
        (["i01", "i03", "gone"], {"x": (-1.5, -1.5, 1), "n": (1.0, 3.0, 2)}),
    ):
        found = collection.read(browse.number_spans, ["x", "n", "x.deep", "nothing"], where)
        assert found == {key: NumberSpan(*span) for key, span in wanted.items()}
    with pytest.raises(QueryError, match="list of up to 64 keys"):
        collection.read(browse.number_spans, "x")


def listed(collection: Collection, order: str, limit: int, where: Filter | None = None) -> list[str]:
    """The numbers of all pages, one after the other."""
    found: list[str] = []
    after = None
    while True:
        page, after = collection.read(browse.page_in_order, browse.parse_order(order), after, limit, where)
        found += [item.id[2:] for item in page]
        if after is None:
            return found


def test_items_are_listed_in_other_orders(collection: Collection) -> None:
    values = [3, -1.5, [7, 2], True, "9", 3, 1e300, 0.1 + 0.2]
    items = fill(collection, [{"x": value, "n": n} for n, value in enumerate(values)])
    collection.upsert(items[1:2])  # written again: the newest
    some = parse_filter({"n": {"gte": 2, "lte": 5}})
    for limit in (1, 2, 3, 100):
        assert listed(collection, "newest", limit) == list("17654320")
        assert listed(collection, "payload.x", limit) == list("172056")
        assert listed(collection, "-payload.x", limit) == list("620571")
        assert listed(collection, "-payload.n", limit, some) == list("5432")
        assert listed(collection, "newest", limit, some) == list("5432")
        assert listed(collection, "payload.nothing", limit) == []


def test_a_key_without_numbers_is_sorted_by_its_texts(collection: Collection) -> None:
    fill(
        collection,
        [{"x": value} for value in ("pear", "Äpfel", ["fig", "apple"], None, 'a "b"', "pear", True)],
    )
    for limit in (1, 2, 100):
        assert listed(collection, "payload.x", limit) == list("42051")
        assert listed(collection, "-payload.x", limit) == list("10524")
    for mark in ("1 2", '1 "', "1 null"):
        with pytest.raises(ItemOrderError, match="ends with"):
            collection.read(browse.page_in_order, browse.parse_order("payload.x"), mark, 9)


def test_an_order_or_a_mark_that_is_none_is_refused(collection: Collection) -> None:
    for order in ("", "price", "-newest", "payload.", "payload.a\x00", f"payload.{'x' * 256}"):
        with pytest.raises(ItemOrderError, match="'newest', 'payload"):
            browse.parse_order(order)
    for mark in ("", "i1", "-1 2", "1 nan", "1 1e999", "1 x", f"{'9' * 19} 1", "1 2 3"):
        for order in ("newest", "payload.x"):
            with pytest.raises(ItemOrderError, match="ends with"):
                collection.read(browse.page_in_order, browse.parse_order(order), mark, 9)


@pytest.mark.parametrize("order", ["id", "newest", "payload.n", "-payload.n"])
def test_pages_of_long_payloads_are_short_and_leave_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    monkeypatch.setattr(browse, "PAGE_BYTES", 1_000)
    items = [
        Item(f"n{n:02}", (caption(0, feature(1), "red"),), {"n": n, "long": "x" * 300}) for n in range(10)
    ]
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert(items)
        seen: list[str] = []
        after = None
        for _ in range(9):
            if order == "id":
                page, after = collection.read(browse.page_by_id, after, 8)
            else:
                page, after = collection.read(browse.page_in_order, browse.parse_order(order), after, 8)
            assert len(page) <= 4
            seen += [item.id for item in page]
            if after is None:
                break
        assert seen == [item.id for item in (items if order in ("id", "payload.n") else items[::-1])]
        assert [item.id for item in collection.read(lambda now: [*browse.every_item(now)])] == sorted(seen)


def test_a_sample_lies_evenly_among_what_is_there_now(collection: Collection) -> None:
    """However many editions have ended between those that are left."""
    items = fill(collection, [{}] * 60)
    assert len(collection.read(browse.sample_editions, 100)) == 60
    assert collection.read(browse.sample_editions, 6).tolist() == [1, 12, 24, 36, 48, 60]
    for _ in range(20):
        collection.upsert(items[:6])
    sample = collection.read(browse.sample_editions, 10).tolist()
    assert len(sample) == 10
    assert sum(edition > 60 for edition in sample) == 1  # six of sixty
    assert sample == sorted(sample)
