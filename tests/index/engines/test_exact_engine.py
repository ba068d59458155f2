"""Rows in memory are found by their ids, whichever of the two are more."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.engines.exact_engine import view_of

IDS = st.sets(st.integers(0, 40))


@given(IDS, IDS, IDS)
def test_rows_are_found_that_are_there_and_not_removed(
    there: set[int], removed: set[int], asked: set[int]
) -> None:
    rows = sorted(there)
    ids = np.array(sorted(asked), np.int64)
    view = view_of(np.array(rows, np.int64), np.zeros((len(rows), 2), np.float32))
    assert view.find(ids).tolist() == [place for place, one in enumerate(rows) if one in asked]
    left = view.without(np.array(sorted(removed), np.int64))
    assert left.find(ids).tolist() == [rows.index(one) for one in sorted(asked & there - removed)]
    places = {one: rows.index(one) for one in there - removed}
    assert left.places(ids).tolist() == [places.get(one, -1) for one in sorted(asked)]
