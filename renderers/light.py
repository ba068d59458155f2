"""How light meets a surface: two lamps and a sky that turn with the camera, a gradient for metals to reflect.

They turn so that every side of a shape is lit alike. Linear light throughout; directions have length one
and point away from the surface. Vectors are columns, "3 k": numpy is several times faster along the long
axis.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64

from renderers.power import power

_KEY = np.array([-0.45, 0.65, 0.8]) / np.linalg.norm([-0.45, 0.65, 0.8])  # in the camera's axes
_FILL = np.array([0.75, 0.15, 0.65]) / np.linalg.norm([0.75, 0.15, 0.65])
WHITEST = np.float32(0.85)  # no real surface is all white, and white things must show on white
BARE_REFLECTANCE = np.float32(0.04)  # of anything but metal, seen straight on


@dataclass(frozen=True, eq=False)
class Surface:
    """What is known of the surface at each fragment."""

    normal: Float32[np.ndarray, "3 k"]
    to_eye: Float32[np.ndarray, "3 k"]
    albedo: Float32[np.ndarray, "3 k"]
    glow: Float32[np.ndarray, "3 k"]
    metallic: Float32[np.ndarray, " k"]
    roughness: Float32[np.ndarray, " k"]
    occlusion: Float32[np.ndarray, " k"]


def dot(first: Float32[np.ndarray, "3 k"], second: Float32[np.ndarray, "3 k"]) -> Float32[np.ndarray, " k"]:
    """Column by column."""
    product: Float32[np.ndarray, " k"] = first[0] * second[0] + first[1] * second[1] + first[2] * second[2]
    return product


def unit(vectors: Float32[np.ndarray, "3 k"]) -> Float32[np.ndarray, "3 k"]:
    """Columns of length one; those without length stay zero."""
    units: Float32[np.ndarray, "3 k"] = vectors / np.maximum(
        np.sqrt(dot(vectors, vectors)), np.float32(1e-20)
    )
    return units


def lamps(
    poses: Float64[np.ndarray, "v 4 4"],
) -> tuple[Float32[np.ndarray, "3 v"], Float32[np.ndarray, "3 v"]]:
    """Where the key light and the fill light of each view stand, as directions in the world."""
    key, fill = (np.einsum("vij,j->iv", poses[:, :3, :3], lamp).astype(np.float32) for lamp in (_KEY, _FILL))
    return key, fill


def lit(
    surface: Surface, key: Float32[np.ndarray, "3 k"], fill: Float32[np.ndarray, "3 k"]
) -> Float32[np.ndarray, "3 k"]:
    """The light that reaches the camera, with its two lamps in these directions."""
    facing_key = np.maximum(dot(surface.normal, key), 0)
    diffuse = _sky(surface) + 0.58 * facing_key + 0.16 * np.maximum(dot(surface.normal, fill), 0)
    mirrored = _surroundings(surface) + 0.6 * _highlight(surface, key, facing_key)
    albedo = surface.albedo * WHITEST
    metal = albedo * surface.metallic
    light: Float32[np.ndarray, "3 k"] = (albedo - 0.65 * metal) * diffuse
    light += (metal + BARE_REFLECTANCE * (1 - surface.metallic)) * mirrored
    light += surface.glow
    return light


def _sky(surface: Surface) -> Float32[np.ndarray, " k"]:
    """Light from all around, a little more from above."""
    sky: Float32[np.ndarray, " k"] = (0.325 + 0.075 * surface.normal[1]) * surface.occlusion
    return sky


def _surroundings(surface: Surface) -> Float32[np.ndarray, " k"]:
    """What a mirror would see: a sky that brightens upwards, blurred by roughness."""
    facing = np.maximum(dot(surface.normal, surface.to_eye), 0)
    height = 2 * facing * surface.normal[1] - surface.to_eye[1]
    upward = np.clip(0.5 * height + 0.5, 0, 1)
    seen: Float32[np.ndarray, " k"] = (
        0.35 + 0.55 * power(upward, 3 - 2 * surface.roughness)
    ) * surface.occlusion
    return seen


def _highlight(
    surface: Surface, key: Float32[np.ndarray, "3 k"], facing_key: Float32[np.ndarray, " k"]
) -> Float32[np.ndarray, " k"]:
    """The gleam of the key light."""
    squared = np.square(np.maximum(surface.roughness, np.float32(0.15)))
    shininess = 2 / (squared * squared) - 2
    halfway = unit(key + surface.to_eye)
    facing = np.minimum(np.maximum(dot(surface.normal, halfway), 0), np.float32(1))
    gleam = power(facing, np.minimum(shininess, 400))
    highlight: Float32[np.ndarray, " k"] = np.minimum((shininess + 8) / 25 * gleam * facing_key, 4)
    return highlight
