"""What Milvus filters by: a row that passes a filter meets its condition, which Milvus reads as we do."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.cluster.milvus_engine import MilvusEngine
from index.cluster.payload_fields import MOST_TOKENS, PARTS, UNLISTED, condition_of, part_of, tokens_of
from index.store.filters import parse_filter
from index.store.item_rows import facts_of, pooled_row
from tests.index.clusters import embedded
from tests.index.filtering import FILTERS, PAYLOADS, lets_through

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture
def engine() -> Iterator[MilvusEngine]:
    made = MilvusEngine(2, "ip", embedded(), "payloads")
    yield made
    made.drop()


def meeting(
    engine: MilvusEngine, payloads: Sequence[Mapping[str, Any]], where: Mapping[str, Any]
) -> set[int] | None:
    """Which of these payloads meet the condition of a filter in Milvus; None if there is no condition."""
    rows = np.arange(len(payloads))
    engine.put(rows, np.ones((len(rows), 2), np.float32), [tokens_of(facts_of(one)) for one in payloads])
    condition = condition_of(parse_filter(where))
    if condition is None:
        return None
    found = {row["row"] for row in embedded().query(engine.name, condition, ["row"], 0)}
    return {row for row in found if row < len(rows)}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payloads=st.lists(PAYLOADS, min_size=1, max_size=12), where=FILTERS)
def test_what_passes_a_filter_meets_its_condition(
    engine: MilvusEngine, payloads: list[dict[str, Any]], where: dict[str, Any]
) -> None:
    wanted = {row for row, payload in enumerate(payloads) if lets_through(where, payload)}
    found = meeting(engine, payloads, where)
    assert found is None or found >= wanted


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ({"x": 1}, {0}),
        ({"x": True}, {1}),
        ({"x": {"in": []}}, set()),
        ({"x": {"exists": True}}, {0, 1, 2}),
        ({"not": {"x": {"in": [1, "a"]}}}, {1, 3}),
        ({"or": [{"x": "a"}, {"x": True}]}, {1, 2}),
        ({"x": {"in": [1, True]}, "not": {"y": "b"}}, {1}),
        ({"x": {"gte": 0.5}}, {0, 2}),
        ({"x": {"exists": True, "prefix": "a"}}, None),
        ({"x": {"prefix": "a"}}, None),
        ({"x": {"gte": "a"}}, None),
        ({"not": {"x": {"lt": 3}}}, None),
        ({}, None),
    ],
)
def test_conditions_by_hand(engine: MilvusEngine, where: dict[str, Any], rows: set[int] | None) -> None:
    payloads: list[dict[str, Any]] = [{"x": 1, "y": "b"}, {"x": True}, {"x": ["a", 7]}, {"y": None}]
    assert meeting(engine, payloads, where) == rows


def test_an_item_with_too_many_facts_meets_every_condition(engine: MilvusEngine) -> None:
    payloads: list[dict[str, Any]] = [
        {"x": [f"value {n}" for n in range(999)], "y": [f"{n}" for n in range(99)]},
        {"x": 1},
    ]
    assert tokens_of(facts_of(payloads[0])) == [UNLISTED]
    assert len(tokens_of(facts_of({"x": payloads[0]["x"]}))) <= MOST_TOKENS
    for where in ({"x": 1}, {"not": {"x": 1}}, {"not": {"not": {"x": 1}}}):
        assert 0 in (meeting(engine, payloads, where) or ())


@given(some=st.lists(NUMBERS, min_size=3, max_size=3))
def test_spans_cover_a_range_with_few_tokens(some: list[float]) -> None:
    least, inside, most = sorted(some)
    condition = condition_of(parse_filter({"x": {"gte": least, "lte": most}}))
    assert condition is not None
    asked = {int(one) for one in condition.partition("[")[2].partition("]")[0].split(",")}
    assert asked & {*tokens_of(facts_of({"x": inside}))}
    assert len(asked) < 200
    for outside in (most + abs(most) * 1e-3 + 1e-300, least - abs(least) * 1e-3 - 1e-300):
        assert not asked & {*tokens_of(facts_of({"x": outside}))}


def test_parts_are_even_for_any_rows() -> None:
    editions = np.arange(1, 64_001)
    for rows in (editions, editions << 20, pooled_row(editions, "text")):
        counts = np.bincount(part_of(rows), minlength=PARTS)
        assert len(counts) == PARTS
        assert counts.max() < 1.5 * len(rows) / PARTS
