"""Named camera rigs, pure: a name -> camera-to-world poses.

Poses follow OpenGL: the camera looks along its own -Z, X to the right, Y up. Azimuth 0 looks at the front
(+Z) of a Y-up model, azimuth 90 at its +X side. The model lies in the unit ball, and every camera stands
outside it, so no engine needs near-plane clipping.

The papers state distances for shapes of unit *diameter* (ShapeNet); ours have unit *radius*, so those
distances are doubled here.
"""

import math
import re

import numpy as np
from jaxtyping import Float64

from renderers.contracts import Rig, RigError

FOV_DEGREES = 40.0
MARGIN = 1.03  # the ball fills 97 % of the picture
NAMES = ("ring6", "ring12", "hero6", "sphere20", "tricolo2022", "tricolo2024")
FAMILIES = "ringN, ringN@ELEVATION,ELEVATION…, heroN and sphereN, with N up to 99 views"
_RING_ELEVATION = 25.0
_RING = re.compile(r"ring([1-9]\d?)(?:@(-?\d{1,2}(?:,-?\d{1,2})*))?")
_HERO = re.compile(r"hero([2-9]|[1-9]\d)")
_SPHERE = re.compile(r"sphere([1-9]\d?)")
_MOST_VIEWS = 99
STANDING_AZIMUTH = math.radians(40.0)


def rig(name: str) -> Rig:
    """The rig of this name: one of `NAMES`, or of the `FAMILIES`."""
    if name == "tricolo2022":
        # Blender's camera at (0, 1, 0.6) with a 35 mm lens on a 32 mm sensor; its view 0 looks from -Z
        angles = [(180.0 + azimuth, math.degrees(math.atan(0.6))) for azimuth in _azimuths(6)]
        return _rig(name, angles, 2 * math.hypot(1.0, 0.6), math.degrees(2 * math.atan(32 / 35 / 2)))
    if name == "tricolo2024":
        return _rig(name, [(azimuth, 36.0) for azimuth in _azimuths(6)], 2 * 0.85, 60.0)
    angles = _angles(name)
    if 0 < len(angles) <= _MOST_VIEWS:  # at a distance from which the whole ball is in the picture
        return _rig(name, angles, MARGIN / math.sin(math.radians(FOV_DEGREES / 2)), FOV_DEGREES)
    raise RigError(f"no camera rig is called {name!r}; there are: {', '.join(NAMES)}, and {FAMILIES}")


def standing_view(rig: Rig) -> int:
    """The view that stands for a model: from above, and nearest to half between the front and a side."""
    places = rig.poses[:, :3, 3]  # to the right, up, to the front
    turned = np.abs(np.arctan2(places[:, 0], places[:, 2]) - STANDING_AZIMUTH)
    return int(np.argmin(np.where(places[:, 1] > 0, turned, np.inf)))


def _rig(name: str, angles: list[tuple[float, float]], distance: float, fov: float) -> Rig:
    poses = [look_at_origin(azimuth, elevation, distance) for azimuth, elevation in angles]
    return Rig(name, np.stack(poses), fov)


def look_at_origin(azimuth: float, elevation: float, distance: float) -> Float64[np.ndarray, "4 4"]:
    """A camera on a ball around the origin, looking at it, upright; angles in degrees."""
    turn, rise = math.radians(azimuth), math.radians(min(max(elevation, -89.9), 89.9))
    back = np.array([math.sin(turn) * math.cos(rise), math.sin(rise), math.cos(turn) * math.cos(rise)])
    right = np.array([math.cos(turn), 0.0, -math.sin(turn)])
    pose = np.eye(4)
    pose[:3] = np.stack([right, np.cross(back, right), back, back * distance], axis=1)
    return pose


def _angles(name: str) -> list[tuple[float, float]]:
    """(azimuth, elevation) of the views of a family; none if the name fits no family."""
    if ring := _RING.fullmatch(name):
        heights = [float(height) for height in (ring[2] or f"{_RING_ELEVATION:g}").split(",")]
        return [(azimuth, height) for height in heights for azimuth in _azimuths(int(ring[1]))]
    if hero := _HERO.fullmatch(name):
        return [(30.0, 20.0), *((azimuth, 25.0) for azimuth in _azimuths(int(hero[1]) - 1))]
    if sphere := _SPHERE.fullmatch(name):  # spread evenly over the ball, from above to below
        golden = 180.0 * (3.0 - math.sqrt(5.0))
        count = int(sphere[1])
        heights = [1 - (2 * view + 1) / count for view in range(count)]
        return [(golden * view % 360.0, math.degrees(math.asin(y))) for view, y in enumerate(heights)]
    return []


def _azimuths(count: int) -> list[float]:
    return [360.0 * view / count for view in range(count)]
