"""Observations of a side, pooled."""

import numpy as np

from multifold.types import Observation, pool_side


def test_the_shape_is_the_mean_of_its_views_and_its_points() -> None:
    rng = np.random.default_rng(0)
    views = [Observation("view", place, rng.normal(size=4).astype(np.float32)) for place in range(3)]
    mean = np.mean([one.feature for one in views], axis=0)
    plain = pool_side(views, "shape")
    assert plain is not None
    np.testing.assert_allclose(plain, mean, atol=1e-6)
    points = Observation("points", 0, 100 * rng.normal(size=4).astype(np.float32))
    both = pool_side([*views, points], "shape")
    assert both is not None
    unit = points.feature / np.linalg.norm(points.feature) * np.linalg.norm(mean)
    np.testing.assert_allclose(both, (mean + unit) / 2, atol=1e-6)
    assert pool_side(views, "text") is None
