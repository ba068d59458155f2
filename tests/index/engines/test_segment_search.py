"""The best of many scores, and what a search of a segment takes instead of its index."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benches.index.generated_vectors import sphere_vectors
from index.contracts import IndexPlan
from index.engines import segment_search
from index.engines.search_setting import OrdinaryReach, SearchSetting
from index.engines.segment_search import Found, SegmentSearch, best_scores, search_segment
from tests.index.engines.built import built, exact_of

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


@pytest.mark.parametrize("queries", [1, 16])
@pytest.mark.parametrize(("share", "compared"), [(0.05, True), (0.24, False)])
def test_few_allowed_rows_are_compared_where_many_cells_are_left(
    queries: int, share: float, compared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = sphere_vectors(8000, 16, 64)
    engine = built(scene, "ip", IndexPlan("IVF64,SQ8", "cpu", 0.95, seal_at=8000))
    allowed = np.flatnonzero(np.random.default_rng(5).random(8000) < share)
    every_cell = SearchSetting(10, 1, 16, 0.99, 0.0, ordinary=OrdinaryReach(np.inf, 100.0))
    further = list[int]()
    look_further = SegmentSearch.look_further

    def look(search: SegmentSearch, found: Found, cells: np.ndarray) -> None:
        further.append(len(cells))
        look_further(search, found, cells)

    monkeypatch.setattr(segment_search, "SELECTION", 0)
    monkeypatch.setattr(segment_search, "BATCH_COST", 1)
    monkeypatch.setattr(SegmentSearch, "look_further", look)
    asked = scene.queries[:queries]
    ids = search_segment(engine.parts[0], "ip", asked, 10, allowed, every_cell)[1]
    assert bool(further) is not compared
    assert np.array_equal(ids, exact_of(scene.rows).search(asked, 10, allowed)[1])
    engine.close()
