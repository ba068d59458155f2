"""The best of many scores."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.engines.segment_search import best_scores

NUMBERS = st.floats(width=32, allow_nan=False)
TELLING = [0.0, -0.0, 1.0, -1.0, 2.0**-149, -(2.0**-149), 3e38, -3e38, np.inf, -np.inf]


@given(
    st.integers(1, 4).flatmap(
        lambda rows: st.lists(
            st.lists(st.sampled_from(TELLING) | NUMBERS, min_size=rows, max_size=rows),
            min_size=1,
            max_size=40,
        )
    ),
    st.integers(1, 50),
    st.randoms(use_true_random=False),
)
def test_the_best_are_those_that_sorting_by_score_and_place_puts_first(
    drawn: list[list[float]], limit: int, shuffled: Random
) -> None:
    scores = np.array(drawn, np.float32).T.copy()
    known = [*range(-1, scores.shape[1] - 2), 2**31 - 1]
    places = np.array([shuffled.sample(known, len(known)) for _ in scores], np.int64)
    order = np.lexsort((places.astype(np.uint64), -scores))[:, :limit]  # padding, -1, comes last
    found = best_scores(scores, places, limit)
    np.testing.assert_array_equal(found[0], np.take_along_axis(scores, order, 1))
    np.testing.assert_array_equal(found[1], np.take_along_axis(places, order, 1))
