"""How light meets a surface: two lamps, a sky and a gradient to reflect, which turn with the camera.

Lamps turn so that every side of a shape is lit alike. Linear light throughout; directions have length one
and point away from the surface. Vectors are columns, "3 k": numpy is several times faster along the long
axis.

Powers are made of sums and products alone, so they have the same bits on every processor: libraries round a
power in their own ways, and each processor may take another one. The logarithm is the series of the area
tangent, the way back that of the exponential; both are right to 1e-6.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64

_F = np.float32
SMALLEST_BASE = _F(1e-37)  # stands in for 0, whose logarithm is none; it shows under exponents below a fifth
ROOT_BITS = np.int32(0x3F3504F3)  # of the root of a half: mantissas lie between it and the root of two
MANTISSA_BITS, EXPONENT_BIAS = np.int32(23), np.int32(127)
SMALLEST_EXPONENT = _F(-126)  # log2 of the least result
ROUND_UP = _F(127.5)  # rounds, as whole numbers are cut off
LOG2_SERIES = tuple(_F(2 / math.log(2) / odd) for odd in (1, 3, 5, 7, 9))
EXP2_SERIES = tuple(_F(math.log(2) ** order / math.factorial(order)) for order in range(7))
ONE = _F(1)


def power(base: Float32[np.ndarray, " k"], exponent: Float32[np.ndarray, " k"]) -> Float32[np.ndarray, " k"]:
    """`base ** exponent` for bases from 0 to 1 and exponents from 0 up."""
    return _two_to(np.maximum(exponent * _log2(np.maximum(base, SMALLEST_BASE)), SMALLEST_EXPONENT))


def _log2(base: Float32[np.ndarray, " k"]) -> Float32[np.ndarray, " k"]:
    bits = base.view(np.int32)
    whole = (bits - ROOT_BITS) >> MANTISSA_BITS
    mantissa = (bits - (whole << MANTISSA_BITS)).view(np.float32)
    ratio = (mantissa - ONE) / (mantissa + ONE)
    logarithm: Float32[np.ndarray, " k"] = whole.astype(np.float32) + ratio * _series(
        LOG2_SERIES, ratio * ratio
    )
    return logarithm


def _two_to(exponent: Float32[np.ndarray, " k"]) -> Float32[np.ndarray, " k"]:
    biased = (exponent + ROUND_UP).astype(np.int32)
    rest = exponent - (biased - EXPONENT_BIAS).astype(np.float32)
    raised: Float32[np.ndarray, " k"] = _series(EXP2_SERIES, rest) * (biased << MANTISSA_BITS).view(
        np.float32
    )
    return raised


def _series(factors: tuple[np.float32, ...], of: Float32[np.ndarray, " k"]) -> Float32[np.ndarray, " k"]:
    """The sum of the factors with rising powers."""
    sum_ = of * factors[-1]
    for factor in factors[-2:0:-1]:
        sum_ += factor
        sum_ *= of
    sum_ += factors[0]
    return sum_


_KEY = np.array([-0.45, 0.65, 0.8]) / np.linalg.norm([-0.45, 0.65, 0.8])  # in the camera's axes
_FILL = np.array([0.75, 0.15, 0.65]) / np.linalg.norm([0.75, 0.15, 0.65])
WHITEST = np.float32(0.85)  # no real surface is all white, and white things must show on white
BARE_REFLECTANCE = np.float32(0.04)  # of anything but metal, seen straight on


@dataclass(frozen=True, eq=False)
class SurfaceSamples:
    """What is known of the surface at each fragment."""

    normal: Float32[np.ndarray, "3 k"]
    to_eye: Float32[np.ndarray, "3 k"]
    albedo: Float32[np.ndarray, "3 k"]
    glow: Float32[np.ndarray, "3 k"]
    metallic: Float32[np.ndarray, " k"]
    roughness: Float32[np.ndarray, " k"]
    occlusion: Float32[np.ndarray, " k"]


def dot_columns(
    first: Float32[np.ndarray, "3 k"], second: Float32[np.ndarray, "3 k"]
) -> Float32[np.ndarray, " k"]:
    """Column by column."""
    product: Float32[np.ndarray, " k"] = first[0] * second[0] + first[1] * second[1] + first[2] * second[2]
    return product


def unit_columns(vectors: Float32[np.ndarray, "3 k"]) -> Float32[np.ndarray, "3 k"]:
    """Columns of length one; those without length stay zero."""
    units: Float32[np.ndarray, "3 k"] = vectors / np.maximum(
        np.sqrt(dot_columns(vectors, vectors)), np.float32(1e-20)
    )
    return units


def lamp_directions(
    poses: Float64[np.ndarray, "v 4 4"],
) -> tuple[Float32[np.ndarray, "3 v"], Float32[np.ndarray, "3 v"]]:
    """Where the key light and the fill light of each view stand, as directions in the world."""
    key, fill = (np.einsum("vij,j->iv", poses[:, :3, :3], lamp).astype(np.float32) for lamp in (_KEY, _FILL))
    return key, fill


def reflected_light(
    surface: SurfaceSamples, key: Float32[np.ndarray, "3 k"], fill: Float32[np.ndarray, "3 k"]
) -> Float32[np.ndarray, "3 k"]:
    """The light that reaches the camera, with its two lamps in these directions."""
    facing_key = np.maximum(dot_columns(surface.normal, key), 0)
    diffuse = _sky(surface) + 0.58 * facing_key + 0.16 * np.maximum(dot_columns(surface.normal, fill), 0)
    mirrored = _surroundings(surface) + 0.6 * _highlight(surface, key, facing_key)
    albedo = surface.albedo * WHITEST
    metal = albedo * surface.metallic
    light: Float32[np.ndarray, "3 k"] = (albedo - 0.65 * metal) * diffuse
    light += (metal + BARE_REFLECTANCE * (1 - surface.metallic)) * mirrored
    light += surface.glow
    return light


def _sky(surface: SurfaceSamples) -> Float32[np.ndarray, " k"]:
    """Light from all around, a little more from above."""
    sky: Float32[np.ndarray, " k"] = (0.325 + 0.075 * surface.normal[1]) * surface.occlusion
    return sky


def _surroundings(surface: SurfaceSamples) -> Float32[np.ndarray, " k"]:
    """What a mirror would see: a sky that brightens upwards, blurred by roughness."""
    facing = np.maximum(dot_columns(surface.normal, surface.to_eye), 0)
    height = 2 * facing * surface.normal[1] - surface.to_eye[1]
    upward = np.clip(0.5 * height + 0.5, 0, 1)
    seen: Float32[np.ndarray, " k"] = (
        0.35 + 0.55 * power(upward, 3 - 2 * surface.roughness)
    ) * surface.occlusion
    return seen


def _highlight(
    surface: SurfaceSamples, key: Float32[np.ndarray, "3 k"], facing_key: Float32[np.ndarray, " k"]
) -> Float32[np.ndarray, " k"]:
    """The gleam of the key light."""
    squared = np.square(np.maximum(surface.roughness, np.float32(0.15)))
    shininess = 2 / (squared * squared) - 2
    halfway = unit_columns(key + surface.to_eye)
    facing = np.minimum(np.maximum(dot_columns(surface.normal, halfway), 0), np.float32(1))
    gleam = power(facing, np.minimum(shininess, 400))
    highlight: Float32[np.ndarray, " k"] = np.minimum((shininess + 8) / 25 * gleam * facing_key, 4)
    return highlight
