"""How far a graph in Milvus looks, chosen by measured recall."""

import pytest

from index.cluster.search_effort import (
    LEAST,
    MOST,
    GraphEffort,
    GraphMeasurement,
    least_effort,
    measurements_as_note,
    measurements_from_note,
)

EFFORTS = (GraphEffort(10, 14, 48, 0.99, 1e-3), GraphEffort(100, 104, 300, 0.995, 2e-3))
MEASURED = GraphMeasurement(0.99, 20_000, 256, EFFORTS)


@pytest.mark.parametrize(
    ("reach", "effort"), [(1, 48), (14, 48), (15, 300), (104, 300), (208, 600), (105, 303)]
)
def test_so_far_as_was_measured_and_beyond_in_proportion(reach: int, effort: int) -> None:
    assert MEASURED.effort(reach) == effort >= reach


def test_the_least_that_reaches_the_target() -> None:
    asked: list[int] = []

    def measure(effort: int) -> tuple[float, float]:
        asked.append(effort)
        return min(1.0, effort / 1000), effort * 1e-5

    found = least_effort(10, 14, 0.9, measure)
    assert found == GraphEffort(10, 14, asked[-1], min(1.0, asked[-1] / 1000), asked[-1] * 1e-5)
    assert asked == sorted(asked)
    assert asked[-2] < 900 <= asked[-1]
    assert asked[0] == LEAST


def test_where_none_reaches_it_the_best_is_taken() -> None:
    found = least_effort(100, 104, 0.99, lambda effort: (0.5 + effort / 10 / MOST, 0.0))
    assert (found.effort, found.recall) == (MOST, 0.6)


def test_it_is_noted_for_others() -> None:
    assert measurements_from_note(measurements_as_note({"rows": MEASURED})) == {"rows": MEASURED}
    assert measurements_from_note(None) == {}
