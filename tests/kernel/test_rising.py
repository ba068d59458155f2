"""Numbers are found among those that rise, whatever their gaps are."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from multifold.rising import ALL, find_rising

NUMBERS = st.integers(-(1 << 40), 1 << 40) | st.integers(-8, 64)


@given(st.lists(NUMBERS), st.sets(NUMBERS))
@example([0, 1, 2], {1})
@example([0], set())
def test_places_are_those_of_a_plain_search(wanted: list[int], known: set[int]) -> None:
    rising = sorted(known)
    wanted += rising[::2]
    living = np.random.default_rng(len(wanted)).random(len(rising)) < 0.7
    places = {one: place for place, one in enumerate(rising)}
    found = find_rising(np.array(wanted, np.int64), np.array(rising, np.int64), ALL)
    assert found.tolist() == [places.get(one, -1) for one in wanted]
    alive = find_rising(np.array(wanted, np.int64), np.array(rising, np.int64), living)
    assert alive.tolist() == [place if place >= 0 and living[place] else -1 for place in found.tolist()]
