"""The benchmark of point clouds: its scores by plain loops, and vectors that stand for them."""

import numpy as np
import pytest

from benches.index import clouds
from multifold.cli import main

SCENE = clouds.make_clouds(items=60, points=6, dim=16, queries=10)


def test_scores_by_plain_loops() -> None:
    query, item = SCENE.queries[3], SCENE.items[7]
    kernel = [np.exp(-((x - y) ** 2).sum() / (2 * clouds.SIGMA**2)) for x in query for y in item]
    assert clouds.kernel_sums(SCENE.queries, SCENE.items)[3, 7] == pytest.approx(np.mean(kernel), rel=1e-5)
    nearest = [max(float(x @ y) for y in item) for x in query]
    assert clouds.chamfer(SCENE.queries, SCENE.items)[3, 7] == pytest.approx(np.mean(nearest), rel=1e-5)


def test_fourier_features_come_near_the_kernel_sum() -> None:
    truth = clouds.kernel_sums(SCENE.queries, SCENE.items)
    errors = []
    for floats in (64, 4096):
        estimate = (
            clouds.fourier_vectors(SCENE.queries, floats) @ clouds.fourier_vectors(SCENE.items, floats).T
        )
        errors.append(float(np.abs(estimate - truth).mean()))
    assert errors[1] < 0.3 * errors[0]


def test_encodings_sum_a_query_and_average_an_item_in_each_cell() -> None:
    """In one cell for all of space, and without projecting, that is the whole of it."""
    points = SCENE.items[:2]
    signs = np.random.default_rng(2)
    signs.standard_normal((16, 0))
    low = points @ (signs.choice(np.array([-1, 1], np.float32), (16, 32)) / np.float32(np.sqrt(32)))
    made = [clouds.muvera_vectors(points, 32, 0, 32, query=query) for query in (True, False)]
    assert made[0] == pytest.approx(low.sum(axis=1), abs=1e-5)
    assert made[1] == pytest.approx(low.mean(axis=1), abs=1e-5)


def test_an_empty_cell_takes_the_point_of_the_nearest_cell() -> None:
    point = SCENE.items[:1, :1]
    made = clouds.muvera_vectors(point, 4 * 8, 2, 8, query=False).reshape(4, 8)
    assert (made == made[0]).all()


def test_it_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clouds, "FLOATS", (256,))
        assert (
            main(["bench", "clouds", "--items", "60", "--points", "6", "--dim", "16", "--queries", "10"]) == 0
        )
    rows = [line for line in capsys.readouterr().out.splitlines() if "| 1024 |" in line]
    assert [row.split()[1] for row in rows] == ["Fourier", "MUVERA,"]
