"""Weights are those of columns that legs have."""

import pytest

from index.legs.table import COLUMNS
from index.search.model import in_order


def test_a_weight_of_no_column_is_a_mistake() -> None:
    assert in_order({"words": 0.5})[COLUMNS.index("words")] == 0.5
    with pytest.raises(AssertionError):
        in_order({"words everywhere": 0.5})
