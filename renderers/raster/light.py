"""How light meets a surface: two lamps, a sky and a gradient to reflect, which turn with the camera.

Lamps turn so that every side of a shape is lit alike. Linear light throughout; directions have length one
and point away from the surface.

These functions and constants exist once. A *number* is a float32 array of fragments here; the numba kernels
compile the same functions for single numbers (`kernels/light.py`), with `larger`, `smaller`, `choose`,
`bits_of` and `single_of` replaced by their scalar forms. The OpenGL shader gets the constants as defines.
So a function takes a constant by its name (Python's own numbers would be float64 in a kernel), and a vector
is anything with three numbers: a tuple, or an array "3 k".

Powers are made of sums and products alone, so they have the same bits on every processor: libraries round a
power in their own ways, and each processor may take another one. The logarithm is the series of the area
tangent, the way back that of the exponential; both are right to 1e-6.
"""

import math
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float32, Float64

F = np.float32
Bits = np.int32
Number: TypeAlias = Any
Vector: TypeAlias = Any

SMALLEST_BASE = F(1e-37)  # stands in for 0, whose logarithm is none; it shows under exponents below a fifth
ROOT_BITS = Bits(0x3F3504F3)  # of the root of a half: mantissas lie between it and the root of two
MANTISSA_BITS, EXPONENT_BIAS = Bits(23), Bits(127)
SMALLEST_EXPONENT = F(-126)  # log2 of the least result
ROUND_UP = F(127.5)  # rounds, as whole numbers are cut off
LOG0, LOG1, LOG2, LOG3, LOG4 = (F(2 / math.log(2) / odd) for odd in (1, 3, 5, 7, 9))
EXP0, EXP1, EXP2, EXP3, EXP4, EXP5, EXP6 = (F(math.log(2) ** n / math.factorial(n)) for n in range(7))
ZERO, HALF, ONE, TWO, THREE, EIGHT = F(0), F(0.5), F(1), F(2), F(3), F(8)

_KEY_LAMP = np.array([-0.45, 0.65, 0.8]) / np.linalg.norm([-0.45, 0.65, 0.8])  # in the camera's axes
_FILL_LAMP = np.array([0.75, 0.15, 0.65]) / np.linalg.norm([0.75, 0.15, 0.65])
# The look. No name may be part of another name or word of the shader, where each is replaced by its value.
WHITEST = F(0.85)  # no real surface is all white, and white things must show on white
BARE_REFLECTANCE = F(0.04)  # of anything but metal, seen straight on
SKY_LEVEL, SKY_RISE = F(0.325), F(0.075)  # light from all around, and how much more comes from above
KEY_LEVEL, FILL_LEVEL = F(0.58), F(0.16)
MIRROR_LEVEL, MIRROR_RISE = F(0.35), F(0.55)  # of what a mirror sees, below and how much more above
GLEAM_LEVEL = F(0.6)
METAL_LOSS = F(0.65)  # of diffuse light
SMOOTHEST, SHININESS_LIMIT = F(0.15), F(400)
GLEAM_SPREAD, GLEAM_LIMIT = F(25), F(4)
FLATTEST_BUMP = F(0.2)  # how far a normal map may lean a surface over
SHORTEST = F(1e-20)  # the length of a vector that has none
SHADER_CONSTANTS = (
    *("WHITEST", "BARE_REFLECTANCE", "SKY_LEVEL", "SKY_RISE", "KEY_LEVEL", "FILL_LEVEL", "MIRROR_LEVEL"),
    *("MIRROR_RISE", "GLEAM_LEVEL", "METAL_LOSS", "SMOOTHEST", "SHININESS_LIMIT", "GLEAM_SPREAD"),
    *("GLEAM_LIMIT", "FLATTEST_BUMP", "SHORTEST"),
)


def shader_defines() -> dict[str, str]:
    """The constants that the OpenGL shader shares, as GLSL writes them."""
    return {name: str(float(str(globals()[name]))) for name in SHADER_CONSTANTS}


def lamp_directions(
    poses: Float64[np.ndarray, "v 4 4"],
) -> tuple[Float32[np.ndarray, "3 v"], Float32[np.ndarray, "3 v"]]:
    """Where the key light and the fill light of each view stand, as directions in the world."""
    lamps = (np.einsum("vij,j->iv", poses[:, :3, :3], lamp) for lamp in (_KEY_LAMP, _FILL_LAMP))
    key, fill = (lamp.astype(np.float32) for lamp in lamps)
    return key, fill


larger, smaller, choose = np.maximum, np.minimum, np.where


def bits_of(number: Number) -> Number:
    return number.view(np.int32)


def single_of(bits: Number) -> Number:
    return bits.view(np.float32)


def log2(base: Number) -> Number:
    bits = bits_of(base)
    whole = Bits(Bits(bits - ROOT_BITS) >> MANTISSA_BITS)
    mantissa = single_of(Bits(bits - Bits(whole << MANTISSA_BITS)))
    ratio = (mantissa - ONE) / (mantissa + ONE)
    squared = ratio * ratio
    series = (((squared * LOG4 + LOG3) * squared + LOG2) * squared + LOG1) * squared + LOG0
    return F(whole) + ratio * series


def two_to(exponent: Number) -> Number:
    biased = Bits(exponent + ROUND_UP)
    rest = exponent - F(Bits(biased - EXPONENT_BIAS))
    series = ((rest * EXP6 + EXP5) * rest + EXP4) * rest + EXP3
    series = ((series * rest + EXP2) * rest + EXP1) * rest + EXP0
    return series * single_of(Bits(biased << MANTISSA_BITS))


def power(base: Number, exponent: Number) -> Number:
    """`base ** exponent` for bases from 0 to 1 and exponents from 0 up."""
    return two_to(larger(exponent * log2(larger(base, SMALLEST_BASE)), SMALLEST_EXPONENT))


def dot(first: Vector, second: Vector) -> Number:
    return first[0] * second[0] + first[1] * second[1] + first[2] * second[2]


def add(first: Vector, second: Vector) -> Vector:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


def subtract(first: Vector, second: Vector) -> Vector:
    return first[0] - second[0], first[1] - second[1], first[2] - second[2]


def scale_by(vector: Vector, by: Number) -> Vector:
    return vector[0] * by, vector[1] * by, vector[2] * by


def cross(first: Vector, second: Vector) -> Vector:
    return (
        first[1] * second[2] - first[2] * second[1],
        first[2] * second[0] - first[0] * second[2],
        first[0] * second[1] - first[1] * second[0],
    )


def unit_vector(vector: Vector) -> Vector:
    """A vector of length one; one without length stays zero."""
    length = larger(np.sqrt(dot(vector, vector)), SHORTEST)
    return vector[0] / length, vector[1] / length, vector[2] / length


def lean_normal(
    normal: Vector, edges: tuple[Vector, Vector], uv_edges: tuple[Vector, Vector], texel: Vector
) -> Vector:
    """The direction of a normal leant over by a normal map, whose axes follow the texture coordinates.

    Two edges of the face, and the same two in texture coordinates, say where these run.
    """
    (first, second), ((u1, v1), (u2, v2)) = edges, uv_edges
    side = np.sign(u1 * v2 - v1 * u2)
    along = scale_by(subtract(scale_by(first, v2), scale_by(second, v1)), side)
    along = unit_vector(subtract(along, scale_by(normal, dot(normal, along))))
    # in glTF the picture's v runs down and the map's green axis up, hence the minus
    across = scale_by(scale_by(cross(normal, along), -ONE), side)
    x, y, z = TWO * texel[0] - ONE, TWO * texel[1] - ONE, larger(TWO * texel[2] - ONE, FLATTEST_BUMP)
    return add(add(scale_by(along, x), scale_by(across, y)), scale_by(normal, z))


def normal_seen_from(to_eye: Vector, leaning: Vector, flat: Vector) -> Vector:
    """The normal of a direction, turned to the side we see and never away from the eye."""
    normal = unit_vector(leaning)
    normal = scale_by(normal, choose(dot(normal, flat) < ZERO, -ONE, ONE))
    return unit_vector(subtract(normal, scale_by(to_eye, smaller(dot(normal, to_eye), ZERO))))


def surroundings(normal: Vector, to_eye: Vector, roughness: Number) -> Number:
    """What a mirror would see, before occlusion: a sky that brightens upwards, blurred by roughness."""
    height = TWO * larger(dot(normal, to_eye), ZERO) * normal[1] - to_eye[1]
    upward = smaller(larger(HALF * height + HALF, ZERO), ONE)
    return MIRROR_LEVEL + MIRROR_RISE * power(upward, THREE - TWO * roughness)


def highlight(normal: Vector, to_eye: Vector, key: Vector, facing_key: Number, roughness: Number) -> Number:
    """The gleam of the key light."""
    rough = larger(roughness, SMOOTHEST)
    squared = rough * rough
    shininess = TWO / (squared * squared) - TWO
    facing = smaller(larger(dot(normal, unit_vector(add(key, to_eye))), ZERO), ONE)
    gleam = power(facing, smaller(shininess, SHININESS_LIMIT))
    return smaller((shininess + EIGHT) / GLEAM_SPREAD * gleam * facing_key, GLEAM_LIMIT)


def reflected_light(
    color: Vector,
    finish: tuple[Vector, Number, Number, Number],
    normal: Vector,
    to_eye: Vector,
    lamps: tuple[Vector, Vector],
) -> Vector:
    """The light that reaches the camera; `finish` is glow, metallic, roughness and occlusion."""
    (glow, metallic, roughness, occlusion), (key, fill) = finish, lamps
    facing_key = larger(dot(normal, key), ZERO)
    sky = (SKY_LEVEL + SKY_RISE * normal[1]) * occlusion
    diffuse = sky + KEY_LEVEL * facing_key + FILL_LEVEL * larger(dot(normal, fill), ZERO)
    mirrored = surroundings(normal, to_eye, roughness) * occlusion
    mirrored = mirrored + GLEAM_LEVEL * highlight(normal, to_eye, key, facing_key, roughness)
    albedo = scale_by(color, WHITEST)
    metal, bare = scale_by(albedo, metallic), BARE_REFLECTANCE * (ONE - metallic)
    return (
        (albedo[0] - METAL_LOSS * metal[0]) * diffuse + (metal[0] + bare) * mirrored + glow[0],
        (albedo[1] - METAL_LOSS * metal[1]) * diffuse + (metal[1] + bare) * mirrored + glow[1],
        (albedo[2] - METAL_LOSS * metal[2]) * diffuse + (metal[2] + bare) * mirrored + glow[2],
    )


BY_SCALARS = (
    *(log2, two_to, power, dot, add, subtract, scale_by, cross, unit_vector, lean_normal),
    *(normal_seen_from, surroundings, highlight, reflected_light),
)  # compiled by the kernels, each after those that it calls
