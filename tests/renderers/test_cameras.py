"""Rigs: where cameras stand, and that they see the whole ball."""

import numpy as np
import pytest
from jaxtyping import Float64

from multifold.errors import MultifoldError
from renderers import cameras
from renderers.contracts import Rig

OURS = ("ring6", "ring12", "hero6", "sphere20", "ring4@-10", "sphere7", "ring1", "ring4@0,45", "hero9")


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


def angles(rig: Rig) -> tuple[Float64[np.ndarray, " v"], Float64[np.ndarray, " v"]]:
    """Azimuths and elevations in degrees."""
    places = rig.poses[:, :3, 3]
    azimuths = np.degrees(np.arctan2(places[:, 0], places[:, 2])) % 360
    return azimuths.round(9) % 360, np.degrees(np.arcsin(places[:, 1] / np.linalg.norm(places, axis=1)))


@pytest.mark.parametrize(
    ("name", "azimuths", "elevations"),
    [
        ("ring6", [0, 60, 120, 180, 240, 300], [25] * 6),  # it begins at the front and turns to the right
        ("ring4@-20,0,45", [0, 90, 180, 270] * 3, [-20] * 4 + [0] * 4 + [45] * 4),
        ("hero4", [30, 0, 120, 240], [20, 25, 25, 25]),
    ],
)
def test_rings_and_heroes(name: str, azimuths: list[float], elevations: list[float]) -> None:
    found = angles(cameras.rig(name))
    assert np.allclose(found[0], azimuths)
    assert np.allclose(found[1], elevations, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "first", "elevation", "distance", "fov"),
    [
        # Blender's camera at (0, 1, 0.6), 35 mm lens, 32 mm sensor; the OBJ's -Z is ShapeNet's front
        ("tricolo2022", 180, np.degrees(np.arctan(0.6)), np.sqrt(1.36), np.degrees(2 * np.arctan(16 / 35))),
        ("tricolo2024", 0, 36.0, 0.85, 60.0),
    ],
)
def test_the_papers_rigs(name: str, first: float, elevation: float, distance: float, fov: float) -> None:
    rig = cameras.rig(name)
    azimuths, elevations = angles(rig)
    assert np.allclose(azimuths, (first + np.arange(6) * 60) % 360)
    assert np.allclose(elevations, elevation)
    assert np.allclose(np.linalg.norm(rig.poses[:, :3, 3], axis=1), 2 * distance)  # of shapes twice as large
    assert rig.fov_degrees == pytest.approx(fov)


def test_the_papers_numbers() -> None:
    rig = cameras.rig("tricolo2022")
    assert np.linalg.norm(rig.poses[0, :3, 3]) / 2 == pytest.approx(1.166, abs=5e-4)
    assert angles(rig)[1][0] == pytest.approx(30.96, abs=5e-3)
    assert rig.fov_degrees == pytest.approx(49.13, abs=5e-3)


GOLDEN: dict[str, list[tuple[float, float, float]]] = {  # camera places, worked out by hand from the names
    "ring2@0": [(0, 0, 3.01155), (0, 0, -3.01155)],
    "ring1@90": [(0, 3.01154, 0.00526)],
    "tricolo2024": [
        (1.7 * np.sin(np.pi / 3 * k) * 0.809017, 1.7 * 0.587785, 1.7 * np.cos(np.pi / 3 * k) * 0.809017)
        for k in range(6)
    ],
    "tricolo2022": [(-2 * np.sin(np.pi / 3 * k), 1.2, -2 * np.cos(np.pi / 3 * k)) for k in range(6)],
    "sphere2": [(0, 1.50576, 2.60805), (1.76171, -1.50576, -1.92310)],
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_places(name: str) -> None:
    assert np.allclose(cameras.rig(name).poses[:, :3, 3], GOLDEN[name], atol=2e-5)


def test_a_sphere_spreads_its_cameras() -> None:
    places = cameras.rig("sphere20").poses[:, :3, 3]
    directions = places / np.linalg.norm(places, axis=1, keepdims=True)
    nearest = np.sort(directions @ directions.T, axis=1)[:, -2]
    assert np.degrees(np.arccos(nearest)).min() > 25
    assert np.abs(directions.mean(axis=0)).max() < 0.05


@pytest.mark.parametrize(
    "name", ["ring", "ring0", "ring100", "RING6", "", "hero", "hero1", "ring50@0,10", "ring6@", "ring6@1,"]
)
def test_an_unknown_rig_is_refused_with_the_names(name: str) -> None:
    with pytest.raises(MultifoldError, match=r"ring6.*tricolo2022.*ringN"):
        cameras.rig(name)


@pytest.mark.parametrize(
    ("name", "view"), [("ring6", 1), ("ring12", 1), ("ring4@10", 0), ("hero6", 0), ("ring6@-20,25", 7)]
)
def test_the_view_from_aside_and_above_stands_for_a_model(name: str, view: int) -> None:
    assert cameras.standing_view(cameras.rig(name)) == view


def test_a_camera_inside_the_ball_is_refused() -> None:
    with pytest.raises(MultifoldError, match="inside"):
        Rig("near", cameras.look_at_origin(0.0, 0.0, 1.0)[None], 40.0)
