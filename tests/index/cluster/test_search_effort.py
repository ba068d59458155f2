"""How far a graph in Milvus looks, chosen by measured recall."""

import pytest

from index.cluster.search_effort import EFFORTS, LEAST_EFFORT, MOST_EFFORT, effort_for, least_effort
from index.engines.search_setting import SearchSetting

MEASURED = (SearchSetting(10, 48, 14, 0.99, 1e-3), SearchSetting(100, 300, 104, 0.995, 2e-3))


@pytest.mark.parametrize(
    ("reach", "effort"), [(1, 48), (14, 48), (15, 300), (104, 300), (208, 600), (105, 303)]
)
def test_so_far_as_was_measured_and_beyond_in_proportion(reach: int, effort: int) -> None:
    assert effort_for(reach, MEASURED) == effort >= reach


def test_cells_do_not_grow_with_the_candidates_before_they_are_measured() -> None:
    cells = EFFORTS["IVF_SQ8"]
    assert effort_for(10, (), cells) == effort_for(5000, (), cells) == cells.unmeasured
    assert effort_for(10_000, MEASURED, cells) == cells.most
    found = least_effort(10, 24, 0.9, lambda effort: (effort / 1000, 0.0), cells)
    assert cells.least < found.effort <= cells.most
    assert found.recall >= 0.9
    assert least_effort(10, 24, 0.99, lambda _: (0.5, 0.0), cells).effort <= cells.most


def test_the_least_that_reaches_the_target() -> None:
    asked: list[int] = []

    def measure(effort: int) -> tuple[float, float]:
        asked.append(effort)
        return min(1.0, effort / 1000), effort * 1e-5

    found = least_effort(10, 14, 0.9, measure)
    assert found == SearchSetting(10, asked[-1], 14, min(1.0, asked[-1] / 1000), asked[-1] * 1e-5)
    assert asked == sorted(asked)
    assert asked[-2] < 900 <= asked[-1]
    assert asked[0] == LEAST_EFFORT


def test_where_none_reaches_it_the_best_is_taken() -> None:
    found = least_effort(100, 104, 0.99, lambda effort: (0.5 + effort / 10 / MOST_EFFORT, 0.0))
    assert (found.effort, found.recall) == (MOST_EFFORT, 0.6)
