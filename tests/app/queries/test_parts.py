"""The parts of a query: as what each is weighted."""

import pytest

from app.queries.parts import (
    ItemQueryPart,
    QueryPart,
    TextQueryPart,
    VectorQueryPart,
    text_weight,
    weighed_side,
)
from multifold.types import Side

VECTOR = VectorQueryPart((1.0, 0.0))


@pytest.mark.parametrize(
    ("parts", "side"),
    [
        ((VECTOR,), "text"),
        ((VectorQueryPart((1.0,), "image"),), "image"),
        ((ItemQueryPart("a", ("shape", "text")), VECTOR), "shape"),
        ((VectorQueryPart((1.0,), "image"), TextQueryPart("red")), "text"),
    ],
)
def test_a_query_is_weighted_as_what_it_was_made_of(parts: tuple[QueryPart, ...], side: Side) -> None:
    assert weighed_side([(part, 1.0) for part in parts]) == side


@pytest.mark.parametrize(
    ("texts", "other", "weight"),
    [([1.0], 1.0, 1.0), ([0.5], 2.0, 0.25), ([0.5, 1.0], -2.0, 0.5), ([3.0], 1.0, 1.0), ([-1.0], 1.0, 1.0)],
)
def test_texts_count_beside_the_heaviest_part(texts: list[float], other: float, weight: float) -> None:
    parts = [(TextQueryPart("red"), one) for one in texts]
    assert text_weight([(VECTOR, other), *parts]) == weight
