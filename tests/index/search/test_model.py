"""Weights are those of columns that legs have."""

import pytest

from index.search.model import LEG_COLUMNS, LEG_OF_COLUMN, LEGS, NAMES, PLACES, in_order


def test_each_column_belongs_to_the_leg_that_names_it() -> None:
    for place, leg in enumerate(LEGS):
        assert NAMES[PLACES[leg]] == LEG_COLUMNS[leg]
        assert set(LEG_OF_COLUMN[PLACES[leg]]) == {place}


def test_a_weight_of_no_column_is_a_mistake() -> None:
    assert in_order({"words": 0.5})[NAMES.index("words")] == 0.5
    with pytest.raises(AssertionError):
        in_order({"words everywhere": 0.5})
