"""Farthest points and groups against the plain definitions, one point at a time."""

import numpy as np
import pytest
from jaxtyping import Float32

from multifold.bundle.point_groups import PointSpec, farthest_points, group_points, neighbours_within

SPEC = PointSpec(points=200, groups=12, neighbours=9, radius=0.4)


def sample(count: int = 200, seed: int = 0) -> Float32[np.ndarray, "n 9"]:
    rows: Float32[np.ndarray, "n 9"] = np.random.default_rng(seed).normal(size=(count, 9)).astype(np.float32)
    rows[:, :3] /= np.linalg.norm(rows[:, :3], axis=1, keepdims=True)
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_each_middle_is_farthest_from_those_before(seed: int) -> None:
    places = sample(seed=seed)[:, :3]
    chosen = farthest_points(places, 12)
    assert chosen[0] == 0
    for turn in range(1, 12):
        to_chosen = [min(np.linalg.norm(place - places[at]) for at in chosen[:turn]) for place in places]
        assert to_chosen[chosen[turn]] == pytest.approx(max(to_chosen), abs=1e-6)
    assert len(set(chosen.tolist())) == 12


@pytest.mark.parametrize("radius", [0.05, 0.4, 3.0])
def test_neighbours_are_the_first_within_the_radius(radius: float) -> None:
    places = sample()[:, :3]
    middles = farthest_points(places, 7)
    members = neighbours_within(places, middles, radius, 9)
    for row, middle in zip(members, middles, strict=True):
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


def test_the_mean_of_the_points_may_be_the_middle() -> None:
    rows = sample()
    rows[:, :3] += 5
    around = PointSpec(200, 12, 200, 10.0, middle="mean")
    places = group_points(rows, around)[0, :, 3:6]
    assert np.allclose(places.mean(0), 0, atol=1e-5)
    assert np.linalg.norm(places, axis=1).max() == pytest.approx(1, abs=1e-5)


def test_points_that_lie_in_one_place_still_make_groups() -> None:
    rows = np.ones((20, 9), np.float32)
    groups = group_points(rows, PointSpec(20, 4, 5))
    assert np.isfinite(groups).all()
    assert (groups[..., :3] == 0).all()
