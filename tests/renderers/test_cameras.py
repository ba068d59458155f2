"""Rigs: where cameras stand, and that they see the whole ball."""

import numpy as np
import pytest

from multifold.errors import MultifoldError
from renderers import cameras

OURS = ("ring6", "ring12", "hero6", "sphere20", "ring4@-10", "sphere7", "ring1")


@pytest.mark.parametrize("name", [*OURS, *cameras.NAMES])
def test_poses_are_rigid_and_look_at_the_origin(name: str) -> None:
    for pose in cameras.rig(name).poses:
        turn, place = pose[:3, :3], pose[:3, 3]
        assert np.allclose(turn @ turn.T, np.eye(3))
        assert np.linalg.det(turn) > 0
        assert np.allclose(turn[:, 2], place / np.linalg.norm(place))  # it looks along its own -Z
        assert turn[1, 0] == pytest.approx(0)
        assert turn[1, 1] > 0


@pytest.mark.parametrize("name", OURS)
def test_the_whole_ball_is_in_the_picture(name: str) -> None:
    rig = cameras.rig(name)
    distance = np.linalg.norm(rig.poses[:, :3, 3], axis=1)
    assert (np.degrees(np.arcsin(1 / distance)) < rig.fov_degrees / 2).all()


def test_ring6_begins_at_the_front_and_turns_towards_the_right() -> None:
    places = cameras.rig("ring6").poses[:, :3, 3]
    azimuths = np.degrees(np.arctan2(places[:, 0], places[:, 2])) % 360
    elevations = np.degrees(np.arcsin(places[:, 1] / np.linalg.norm(places, axis=1)))
    assert np.allclose(azimuths, [0, 60, 120, 180, 240, 300])
    assert np.allclose(elevations, 25)


@pytest.mark.parametrize(
    ("name", "elevation", "distance", "fov"),
    [("tricolo2022", 30.96, 2 * 1.166, 49.13), ("tricolo2024", 36.0, 2 * 0.85, 60.0)],
)
def test_the_papers_rigs(name: str, elevation: float, distance: float, fov: float) -> None:
    rig = cameras.rig(name)
    places = rig.poses[:, :3, 3]
    assert len(rig) == 6
    assert rig.fov_degrees == fov
    assert np.allclose(np.linalg.norm(places, axis=1), distance)
    assert np.allclose(places[:, 1], distance * np.sin(np.radians(elevation)))


def test_a_sphere_spreads_its_cameras() -> None:
    places = cameras.rig("sphere20").poses[:, :3, 3]
    directions = places / np.linalg.norm(places, axis=1, keepdims=True)
    nearest = np.sort(directions @ directions.T, axis=1)[:, -2]
    assert np.degrees(np.arccos(nearest)).min() > 25
    assert np.abs(directions.mean(axis=0)).max() < 0.05


@pytest.mark.parametrize("name", ["ring", "ring0", "ring100", "RING6", "", "hero7"])
def test_an_unknown_rig_is_refused_with_the_names(name: str) -> None:
    with pytest.raises(MultifoldError, match=r"ring6.*tricolo2022.*ringN"):
        cameras.rig(name)


def test_a_camera_inside_the_ball_is_refused() -> None:
    with pytest.raises(MultifoldError, match="inside"):
        cameras.Rig("near", cameras.look_at_origin(0.0, 0.0, 1.0)[None], 40.0)
