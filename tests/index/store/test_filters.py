"""Filters: a grammar that explains itself, and items found as taking each payload by hand would find them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.collection import Collection
from index.contracts import QueryError
from index.maintenance.restore import restore_snapshot
from index.store import browse
from index.store.browse import ItemOrderError, NumberSpan
from index.store.filters import (
    AndFilter,
    ExistsFilter,
    Filter,
    FilterError,
    NotFilter,
    OneOfFilter,
    OrFilter,
    PrefixFilter,
    RangeFilter,
    next_after_prefix,
    parse_filter,
)
from index.store.item_rows import TEXT_HEAD, FactValue, ItemError, facts_of, shorten_text
from index.store.schema import LONGEST_TEXT
from multifold.types import Item
from tests.index.filtering import FILTERS, PAYLOADS, lets_through
from tests.index.spaces import FEATURE, Sphere
from tests.index.things import answers, brute, feature, query, same, view


@pytest.fixture
def collection(tmp_path: Path, database: str | None) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things", Sphere(FEATURE), database=database) as opened:
        yield opened


def with_payload(name: str, payload: dict[str, Any]) -> Item:
    return Item(name, (view(0, feature(1, int(name[1:]))),), payload)


def test_the_grammar() -> None:
    text, number = FactValue("text", "red"), FactValue("number", 1.0)
    red, one = OneOfFilter("colour", (text,)), OneOfFilter("n", (number,))
    assert parse_filter({}) == AndFilter(())
    assert parse_filter({"colour": "red"}) == red
    assert parse_filter({"colour": "red", "n": 1}) == AndFilter((red, one))
    assert parse_filter({"n": True}) == OneOfFilter("n", (FactValue("bool", 1.0),)) != one
    assert parse_filter({"n": {"in": [1, "red", 1.0]}}) == OneOfFilter("n", (number, text))
    assert parse_filter({"p": {"gte": 1, "lt": 5}}) == RangeFilter("p", gte=1.0, lt=5.0)
    assert parse_filter({"p": {"gt": "a", "prefix": "b"}}) == AndFilter(
        (RangeFilter("p", gt="a"), PrefixFilter("p", "b"))
    )
    assert parse_filter({"x.y": {"exists": False}}) == NotFilter(ExistsFilter("x.y"))
    assert parse_filter({"or": [{"colour": "red"}, {"not": {"n": 1}}]}) == OrFilter((red, NotFilter(one)))
    assert parse_filter({"and": [{"colour": "red"}, {}]}) == AndFilter((red, AndFilter(())))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (
            {"price": {"above": 3}},
            "'above' is no operator; they are gt, gte, lt, lte, in, prefix, exists.*and, or, not",
        ),
        ({"size": {"w": {"gt": 1}}}, r"named with dots: 'size\.w'"),
        ({"x": {}}, "condition on 'x' is empty"),
        ({"x": None}, '"exists": false'),
        ({"x": ["a"]}, '"in"'),
        ({"x": float("nan")}, "finite number"),
        ({"x": 10**400}, "finite number"),
        ({"x": "a\0"}, "compared with"),
        ({"x": {"in": "a"}}, "'in' takes a list"),
        ({"x": {"in": [[]]}}, r"not \[\]"),
        ({"x": {"prefix": 3}}, "'prefix' takes a text"),
        ({"x": {"prefix": "a" * (TEXT_HEAD + 1)}}, f"up to {TEXT_HEAD}"),
        ({"x": {"exists": 1}}, "true or false"),
        ({"x": {"gt": True}}, "'gt' takes a number or a text"),
        ({"x": {"gt": 1, "lt": "b"}}, "all numbers or all texts"),
        ({"and": {}}, "'and' takes a list"),
        ({"or": []}, "'or' takes a list"),
        ({"or": ["a"]}, "filter is an object"),
        ({"not": []}, "filter is an object"),
        ({"k" * 256: 1}, "up to 255"),
        ({"x": {"in": list(range(1001))}}, "more than 1000"),
        ({"or": [{"x": 1}] * 1001}, "more than 1000"),
    ],
)
def test_what_is_not_understood_is_explained(raw: dict[str, Any], reason: str) -> None:
    with pytest.raises(FilterError, match=reason):
        parse_filter(raw)


def test_a_nest_is_cut_short() -> None:
    deep: dict[str, Any] = {"x": 1}
    for _ in range(100_000):
        deep = {"not": deep}
    with pytest.raises(FilterError, match="16 deep"):
        parse_filter(deep)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payloads=st.lists(PAYLOADS, min_size=1, max_size=12), where=FILTERS)
def test_filters_agree_with_payloads_taken_by_hand(
    collection: Collection, payloads: list[dict[str, Any]], where: dict[str, Any]
) -> None:
    collection.delete(collection.ids())
    items = [with_payload(f"i{n}", payload) for n, payload in enumerate(payloads)]
    collection.upsert(items)
    wanted = [item for item in items if lets_through(where, item.payload)]
    chosen = parse_filter(where)
    assert collection.count(chosen) == len(wanted)
    page = collection.scroll(where=chosen)
    assert [item.id for item in page] == sorted(item.id for item in wanted)
    asked = query(feature(1), where=chosen)
    assert answers(collection.search(asked)) == brute(wanted, Sphere(FEATURE), asked)


@given(st.text(max_size=3), st.text(max_size=5))
def test_following_is_the_least_text_above_a_prefix(prefix: str, text: str) -> None:
    end = next_after_prefix(prefix)
    assert text.startswith(prefix) == (prefix <= text and (end is None or text < end))
    assert end is None or not end.startswith(prefix)


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
    collection.upsert([with_payload("i0", odd)])
    found = collection.get("i0")
    assert found is not None
    assert found.payload == json.loads(json.dumps(odd))
    for key in ("x", "big", "long", "deep"):
        assert collection.count(parse_filter({key: {"exists": True}})) == 1
    assert collection.count(parse_filter({"long": 3})) == 0
    assert len(facts_of(odd)) == 4 + 15


def test_too_many_values_are_refused(collection: Collection) -> None:
    many = {f"k{n}": list(range(900)) for n in range(5)}
    with pytest.raises(ItemError, match="'i0': the payload has 4505 values"):
        collection.upsert([with_payload("i0", many)])
    nest: Any = []
    for _ in range(100_000):
        nest = [nest]
    with pytest.raises(ItemError, match="not a JSON object"):
        collection.upsert([with_payload("i0", {"x": nest})])
    assert collection.count() == 0


def shop(collection: Collection, count: int = 50) -> list[Item]:
    rng = np.random.default_rng(3)
    items = [
        Item(f"i{n:02}", (view(0, rng.standard_normal(FEATURE).astype(np.float32)),), payload)
        for n in range(count)
        for payload in [{"n": n, "even": n % 2 == 0, "tags": ["all", "all", f"t{n % 5}"]}]
    ]
    collection.upsert(items)
    return items


def test_pages_follow_each_other(collection: Collection) -> None:
    items = shop(collection)
    where = parse_filter({"even": True})
    seen: list[Item] = []
    while page := collection.scroll(seen[-1].id if seen else None, 7, where):
        assert len(page) <= 7
        seen += page
    wanted = [item for item in items if item.payload["even"]]
    assert len(seen) == len(wanted)
    assert all(same(left, right) for left, right in zip(seen, wanted, strict=True))
    assert [item.id for item in collection.scroll("i4")] == [f"i{n}" for n in range(40, 50)]
    for limit in (0, 1001):
        with pytest.raises(QueryError, match="1 to 1000"):
            collection.scroll(limit=limit)


def test_facets_count_items(collection: Collection) -> None:
    shop(collection)
    found = collection.facets(["tags", "even", "n", "nothing"], limit=3)
    assert [(facet.value, facet.count) for facet in found["tags"]] == [("all", 50), ("t0", 10), ("t1", 10)]
    assert [(facet.value, facet.count) for facet in found["even"]] == [(False, 25), (True, 25)]
    assert [(facet.value, facet.count) for facet in found["n"]] == [(0, 1), (1, 1), (2, 1)]
    assert found["nothing"] == []
    assert [type(facet.value) for key in ("tags", "even", "n") for facet in found[key][:1]] == [
        str,
        bool,
        int,
    ]
    (few,) = collection.facets(["even"], parse_filter({"n": {"lt": 10.5}, "tags": "t3"}))["even"][:1]
    assert (few.value, few.count) == (False, 1)
    with pytest.raises(QueryError, match="list of up to 64 keys"):
        collection.facets("tags")


def test_spans_of_numbers(collection: Collection) -> None:
    values = [3, -1.5, [7, 2], True, "9", None, {"deep": 1e300}]
    collection.upsert([with_payload(f"i{n}", {"x": value, "n": n}) for n, value in enumerate(values)])
    assert collection.read(browse.number_spans, ["x", "n", "x.deep", "nothing"]) == {
        "x": NumberSpan(-1.5, 7.0, 3),
        "n": NumberSpan(0.0, 6.0, 7),
        "x.deep": NumberSpan(1e300, 1e300, 1),
    }
    assert collection.read(browse.number_spans, ["x", "n"], parse_filter({"n": {"gte": 2, "lt": 5}})) == {
        "x": NumberSpan(2.0, 7.0, 1),
        "n": NumberSpan(2.0, 4.0, 3),
    }
    assert collection.read(browse.number_spans, ["x"], parse_filter({"n": 3})) == {}
    with pytest.raises(QueryError, match="list of up to 64 keys"):
        collection.read(browse.number_spans, "x")


def test_items_that_are_named_are_counted_alone(collection: Collection) -> None:
    collection.upsert([with_payload(f"i{n}", {"x": n % 2, "y": n}) for n in range(6)])
    named = ["i1", "i3", "i4", "gone"]
    assert [(one.value, one.count) for one in collection.facets(["x"], named)["x"]] == [(1, 2), (0, 1)]
    assert collection.read(browse.number_spans, ["y"], named) == {"y": NumberSpan(1.0, 4.0, 3)}
    assert collection.facets(["x"], []) == {"x": []}


def listed(collection: Collection, order: str, limit: int, where: Filter | None = None) -> list[str]:
    """The ids of all pages, one after the other."""
    found: list[str] = []
    after = None
    while True:
        page, after = collection.read(browse.page_in_order, browse.parse_order(order), after, limit, where)
        found += [item.id for item in page]
        if after is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_items_are_listed_in_other_orders(collection: Collection, limit: int) -> None:
    values = [3, -1.5, [7, 2], True, "9", 3, 1e300, 0.1 + 0.2]
    collection.upsert([with_payload(f"i{n}", {"x": value, "n": n}) for n, value in enumerate(values)])
    collection.upsert([with_payload("i1", {"x": -1.5, "n": 1})])  # written again: the newest
    assert listed(collection, "newest", limit) == ["i1", "i7", "i6", "i5", "i4", "i3", "i2", "i0"]
    assert listed(collection, "payload.x", limit) == ["i1", "i7", "i2", "i0", "i5", "i6"]
    assert listed(collection, "-payload.x", limit) == ["i6", "i2", "i0", "i5", "i7", "i1"]
    some = parse_filter({"n": {"gte": 2, "lte": 5}})
    assert listed(collection, "-payload.n", limit, some) == ["i5", "i4", "i3", "i2"]
    assert listed(collection, "newest", limit, some) == ["i5", "i4", "i3", "i2"]
    assert listed(collection, "payload.nothing", limit) == []


@pytest.mark.parametrize(
    "order", ["", "price", "-newest", "payload.", "payload.a\x00", f"payload.{'x' * 256}"]
)
def test_an_order_that_is_none_is_refused(order: str) -> None:
    with pytest.raises(ItemOrderError, match="'newest', 'payload"):
        browse.parse_order(order)


@pytest.mark.parametrize("mark", ["", "i1", "-1 2", "1 nan", "1 1e999", "1 x", f"{'9' * 19} 1", "1 2 3"])
def test_a_mark_that_is_none_is_refused(collection: Collection, mark: str) -> None:
    for order in ("newest", "payload.x"):
        with pytest.raises(ItemOrderError, match="ends with"):
            collection.read(browse.page_in_order, browse.parse_order(order), mark, 9)


def test_deleting_by_filter(collection: Collection) -> None:
    shop(collection)
    assert collection.delete_where(parse_filter({"tags": "t3"})) == 10
    assert collection.delete_where(parse_filter({"tags": "t3"})) == 0
    assert collection.count() == 40
    hits = collection.search(query(feature(1), limit=50))
    assert len(hits) == 40
    assert not any("t3" in hit.payload["tags"] for hit in hits)


def test_a_restored_copy_is_filtered_as_well(collection: Collection, tmp_path: Path) -> None:
    shop(collection)
    collection.snapshot(tmp_path / "shop.tar")
    restore_snapshot(tmp_path / "shop.tar", tmp_path / "copy")
    with Collection.open(tmp_path / "copy", Sphere(FEATURE)) as copy:
        assert copy.count(parse_filter({"tags": "t3"})) == 10
        assert copy.facets(["tags", "n"]) == collection.facets(["tags", "n"])


def test_facets_of_several_kinds_stand_together(collection: Collection) -> None:
    values = [1, 1.0, True, "1", "1", "1", False, [False, 1], None, {"deep": 1}]
    collection.upsert([with_payload(f"i{n}", {"x": value}) for n, value in enumerate(values)])
    found = [(facet.value, facet.count) for facet in collection.facets(["x"])["x"]]
    assert [(type(value), value, count) for value, count in found] == [
        (int, 1, 3),
        (str, "1", 3),
        (bool, False, 2),
        (bool, True, 1),
    ]
    assert len(collection.facets(["x"], limit=2)["x"]) == 2


def test_an_offset_passes_over_hits(collection: Collection) -> None:
    items = shop(collection)
    for pooled in ("mean", "max"):
        for where in ({}, {"even": False}):
            asked = query(feature(1, 2), limit=6, offset=9, pool=pooled, where=parse_filter(where))
            wanted = [item for item in items if lets_through(where, item.payload)]
            assert answers(collection.search(asked)) == brute(wanted, Sphere(FEATURE), asked)
    with pytest.raises(QueryError, match="offset"):
        collection.search(query(feature(1), offset=-1))
