"""Distances of cells, the nearest of them, and those within reach are what numpy finds."""

import numpy as np
import pytest

from benches.index.generated_vectors import sphere_vectors
from index.engines.cell_distances import cell_bounds, cells_within_reach, nearest_cells, squared_distances

SCENE = sphere_vectors(2000, 40, 30)


def test_cells_are_the_nearest_and_the_farthest_of_them_is_the_last() -> None:
    squares = np.random.default_rng(3).random((7, 100), np.float32)
    ranked = np.argsort(squares, axis=1)
    for effort in (1, 4, 99, 100):
        cells = nearest_cells(squares, effort)
        assert np.array_equal(np.sort(cells, axis=1), np.sort(ranked[:, :effort], axis=1))
        assert np.array_equal(cells[:, -1], ranked[:, effort - 1])


def test_distances_are_those_of_numpy() -> None:
    expected = ((SCENE.rows - SCENE.queries[0]) ** 2).sum(axis=1)
    assert squared_distances(SCENE.queries[0], SCENE.rows) == pytest.approx(expected, rel=1e-5)


def test_cells_within_reach_are_those_beyond_the_last_that_was_searched() -> None:
    squares = np.array([[1, 4, 9, 16, 25]] * 3, np.float32)
    last = np.array([4, 4, 0], np.float32)
    radius, reach = 1.0, 0.5
    bounds = cell_bounds(last, reach, radius)
    assert bounds[0] == pytest.approx((0.5 + np.sqrt(4 + 0.25 - 1)) ** 2)
    assert bounds[2] == 0  # no cell can hold a nearer row
    farthest = np.array([0, 1, 0])
    cells = cells_within_reach(squares, farthest, last, radius, np.inf, reach, 0.0, False)
    assert cells.tolist() == [[1], [-1], [-1]]


@pytest.mark.parametrize("again", [False, True])
def test_strange_queries_have_a_reach_of_their_own_and_may_begin_again(again: bool) -> None:
    squares = np.array([[1, 4, 9, 16, 25]], np.float32)
    last, farthest = np.array([4], np.float32), np.array([1])
    near, reach, far_reach = 3.0, 0.0, 2.0
    cells = cells_within_reach(squares, farthest, last, 1.0, near, reach, far_reach, again)
    assert cells.tolist() == ([[0, 1, 2, 3]] if again else [[2, 3]])
