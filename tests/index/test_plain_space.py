"""Spaces of plain embeddings, known by their names."""

import pytest

from index.plain_space import PlainSpace, PlainSpaceError, parse_plain_space
from multifold.types import Distance


@pytest.mark.parametrize("comparison", ["cosine", "ip", "l2"])
def test_a_plain_space_is_known_by_its_name(comparison: Distance) -> None:
    space = PlainSpace(comparison, 768)
    assert parse_plain_space(space.vector_id) == space


def test_other_names_are_none_and_no_numbers_are_refused() -> None:
    for name in ("plain-cosine-0", "plain-cos-8", "plain-ip-8x", "0123456789abcdef", "plain-ip-9999999"):
        assert parse_plain_space(name) is None
    with pytest.raises(PlainSpaceError, match="plain-ip-0"):
        PlainSpace("ip", 0)
