"""Filters: a grammar that explains itself, and items found as taking each payload by hand would find them."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.collection import Collection
from index.store.filters import (
    AndFilter,
    ExistsFilter,
    FilterError,
    NotFilter,
    OneOfFilter,
    OrFilter,
    PrefixFilter,
    RangeFilter,
    next_after_prefix,
    parse_filter,
)
from index.store.item_rows import TEXT_HEAD, FactValue
from multifold.types import Item
from tests.index.filtering import FILTERS, PAYLOADS, lets_through
from tests.index.spaces import SPACE
from tests.index.things import answers, brute, feature, query, view


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
        ({"$or": [{"x": 1}, {"x": 2}]}, r"'\$or' is written 'or', without the dollar"),
        ({"must": [{"key": "x"}]}, "'must' is written 'and' here"),
        ({"should": [{"x": 1}]}, "'should' is written 'or' here"),
        ({"must_not": {"x": 1}}, "'must_not' is written 'not' here"),
        ({"x": {"$gte": 3}}, r"'\$gte' is written 'gte', without the dollar"),
        ({"x": {"above": 3}}, "'above' is no operator; they are gt, gte, lt, .*exists.*and, or, not"),
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
    items = [Item(f"i{n}", (view(0, feature(1, n)),), payload) for n, payload in enumerate(payloads)]
    collection.upsert(items)
    wanted = [item for item in items if lets_through(where, item.payload)]
    chosen = parse_filter(where)
    assert collection.count(chosen) == len(wanted)
    page = collection.scroll(where=chosen)
    assert [item.id for item in page] == sorted(item.id for item in wanted)
    asked = query(feature(1), where=chosen)
    assert answers(collection.search(asked)) == brute(wanted, SPACE, asked)


@given(st.text(max_size=3), st.text(max_size=5))
def test_following_is_the_least_text_above_a_prefix(prefix: str, text: str) -> None:
    end = next_after_prefix(prefix)
    assert text.startswith(prefix) == (prefix <= text and (end is None or text < end))
    assert end is None or not end.startswith(prefix)
