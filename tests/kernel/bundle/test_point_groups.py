"""Farthest points and groups against the plain definitions, one point at a time."""

import numpy as np
import pytest
from jaxtyping import Float32

from multifold.bundle.point_groups import PointSpec, farthest_points, group_points, neighbours_within

SPEC = PointSpec(points=200, groups=12, neighbours=9, radius=0.4)


def sample(seed: int = 0) -> Float32[np.ndarray, "n 9"]:
    rows: Float32[np.ndarray, "n 9"] = np.random.default_rng(seed).normal(size=(200, 9)).astype(np.float32)
    rows[:, :3] /= np.linalg.norm(rows[:, :3], axis=1, keepdims=True)
    return rows


@pytest.mark.parametrize(("seed", "radius"), [(0, 0.05), (1, 0.4), (2, 3.0)])
def test_middles_are_far_apart_and_neighbours_within_the_radius(seed: int, radius: float) -> None:
    places = sample(seed)[:, :3]
    chosen = farthest_points(places, 12)
    assert chosen[0] == 0
    for turn in range(1, 12):
        to_chosen = [min(np.linalg.norm(place - places[at]) for at in chosen[:turn]) for place in places]
        assert to_chosen[chosen[turn]] == pytest.approx(max(to_chosen), abs=1e-6)
    assert len(set(chosen.tolist())) == 12
    for row, middle in zip(neighbours_within(places, chosen, radius, 9), chosen, strict=True):
        near = [at for at in range(200) if np.linalg.norm(places[at] - places[middle]) <= radius]
        assert row.tolist() == (near + [near[0]] * 9)[:9]


def test_groups_hold_relative_places_and_the_columns() -> None:
    rows = sample()
    groups = group_points(rows, SPEC)
    assert groups.shape == (12, 9, SPEC.columns)
    middles = farthest_points(rows[:, :3], 12)
    members = neighbours_within(rows[:, :3], middles, 0.4, 9)
    assert np.array_equal(groups[..., :3], rows[members, :3] - rows[middles][:, None, :3])
    assert np.array_equal(groups[..., 3:], rows[members])
    bare = PointSpec(200, 12, 9, 0.4, normals=False)
    assert np.array_equal(group_points(rows, bare), np.delete(groups, [6, 7, 8], axis=2))
    rows[:, :3] += 5
    places = group_points(rows, PointSpec(200, 12, 200, 10.0, middle="mean"))[0, :, 3:6]
    assert np.allclose(places.mean(0), 0, atol=1e-5)  # the mean of the points may be the middle
    assert np.linalg.norm(places, axis=1).max() == pytest.approx(1, abs=1e-5)
    in_one_place = group_points(np.ones((20, 9), np.float32), PointSpec(20, 4, 5))
    assert (in_one_place[..., :3] == 0).all()
    assert np.isfinite(in_one_place).all()
