"""How light meets a surface: for single fragments, and for a block of them at once.

A block is a table of float32 with a row for each value below and `LANES` fragments in each row. All lanes
are worked out alike and without branches, so that the compiler takes eight or sixteen at a time.

Powers are made of sums and products alone, so they have the same bits on every processor: libraries round a
power in their own ways, and each processor may take another one. The logarithm is the series of the area
tangent, the way back that of the exponential; both are right to 1e-6. Python's own numbers would be float64
in a kernel, so a function takes a constant by its name.
"""

import math
from typing import TypeAlias

import numpy as np

from renderers.look import (
    BARE_REFLECTANCE,
    FILL_LEVEL,
    FLATTEST_BUMP,
    GLEAM_LEVEL,
    GLEAM_LIMIT,
    GLEAM_SPREAD,
    KEY_LEVEL,
    METAL_LOSS,
    MIRROR_LEVEL,
    MIRROR_RISE,
    SHININESS_LIMIT,
    SHORTEST,
    SKY_LEVEL,
    SKY_RISE,
    SMOOTHEST,
    WHITEST,
)
from renderers.raster.compiling import Single, bits_of, choose, inline_kernel, kernel, single_of
from renderers.raster.scene import LANES, Pointer, ScenePointers

F = np.float32
Bits = np.int32
Vector: TypeAlias = tuple[Single, Single, Single]
Planar: TypeAlias = tuple[Single, Single]
# rows: colours are overwritten by the light that reaches the camera
COLOR, ALPHA, POINT, NORMAL, FLAT, GLOW, METALLIC, ROUGHNESS, OCCLUSION, UNLIT = (
    row * LANES for row in (0, 3, 4, 7, 10, 13, 16, 17, 18, 19)
)
_EYE, _KEY_LAMP, _FILL_LAMP = 0, 3, 6  # of the scene's lights

SMALLEST_BASE = F(1e-37)  # stands in for 0, whose logarithm is none; it shows under exponents below a fifth
ROOT_BITS = Bits(0x3F3504F3)  # of the root of a half: mantissas lie between it and the root of two
MANTISSA_BITS, EXPONENT_BIAS = Bits(23), Bits(127)
SMALLEST_EXPONENT = F(-126)  # log2 of the least result
ROUND_UP = F(127.5)  # rounds, as whole numbers are cut off
LOG0, LOG1, LOG2, LOG3, LOG4 = (F(2 / math.log(2) / odd) for odd in (1, 3, 5, 7, 9))
EXP0, EXP1, EXP2, EXP3, EXP4, EXP5, EXP6 = (F(math.log(2) ** n / math.factorial(n)) for n in range(7))
ZERO, HALF, ONE, TWO, THREE, EIGHT = F(0), F(0.5), F(1), F(2), F(3), F(8)


@inline_kernel
def log2(base: Single) -> Single:
    bits = bits_of(base)
    whole = Bits(Bits(bits - ROOT_BITS) >> MANTISSA_BITS)
    mantissa = single_of(Bits(bits - Bits(whole << MANTISSA_BITS)))
    ratio = (mantissa - ONE) / (mantissa + ONE)
    squared = ratio * ratio
    series = (((squared * LOG4 + LOG3) * squared + LOG2) * squared + LOG1) * squared + LOG0
    return F(whole) + ratio * series


@inline_kernel
def two_to(exponent: Single) -> Single:
    biased = Bits(exponent + ROUND_UP)
    rest = exponent - F(Bits(biased - EXPONENT_BIAS))
    series = ((rest * EXP6 + EXP5) * rest + EXP4) * rest + EXP3
    series = ((series * rest + EXP2) * rest + EXP1) * rest + EXP0
    return series * single_of(Bits(biased << MANTISSA_BITS))


@inline_kernel
def power(base: Single, exponent: Single) -> Single:
    """`base ** exponent` for bases from 0 to 1 and exponents from 0 up."""
    return two_to(max(exponent * log2(max(base, SMALLEST_BASE)), SMALLEST_EXPONENT))


@inline_kernel
def dot(first: Vector, second: Vector) -> Single:
    return first[0] * second[0] + first[1] * second[1] + first[2] * second[2]


@inline_kernel
def add(first: Vector, second: Vector) -> Vector:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


@inline_kernel
def subtract(first: Vector, second: Vector) -> Vector:
    return first[0] - second[0], first[1] - second[1], first[2] - second[2]


@inline_kernel
def scale_by(vector: Vector, by: Single) -> Vector:
    return vector[0] * by, vector[1] * by, vector[2] * by


@inline_kernel
def cross(first: Vector, second: Vector) -> Vector:
    return (
        first[1] * second[2] - first[2] * second[1],
        first[2] * second[0] - first[0] * second[2],
        first[0] * second[1] - first[1] * second[0],
    )


@inline_kernel
def unit_vector(vector: Vector) -> Vector:
    """A vector of length one; one without length stays zero."""
    length = max(np.sqrt(dot(vector, vector)), SHORTEST)
    return vector[0] / length, vector[1] / length, vector[2] / length


@inline_kernel
def lean_normal(
    normal: Vector, edges: tuple[Vector, Vector], uv_edges: tuple[Planar, Planar], texel: Vector
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
    x = TWO * texel[0] - ONE
    y = TWO * texel[1] - ONE
    z = max(TWO * texel[2] - ONE, FLATTEST_BUMP)
    return add(add(scale_by(along, x), scale_by(across, y)), scale_by(normal, z))


@inline_kernel
def normal_seen_from(to_eye: Vector, leaning: Vector, flat: Vector) -> Vector:
    """The normal of a direction, turned to the side we see and never away from the eye."""
    normal = unit_vector(leaning)
    normal = scale_by(normal, choose(dot(normal, flat) < ZERO, -ONE, ONE))
    return unit_vector(subtract(normal, scale_by(to_eye, min(dot(normal, to_eye), ZERO))))


@inline_kernel
def surroundings(normal: Vector, to_eye: Vector, roughness: Single) -> Single:
    """What a mirror would see, before occlusion: a sky that brightens upwards, blurred by roughness."""
    height = TWO * max(dot(normal, to_eye), ZERO) * normal[1] - to_eye[1]
    upward = min(max(HALF * height + HALF, ZERO), ONE)
    return MIRROR_LEVEL + MIRROR_RISE * power(upward, THREE - TWO * roughness)


@inline_kernel
def highlight(normal: Vector, to_eye: Vector, key: Vector, facing_key: Single, roughness: Single) -> Single:
    """The gleam of the key light."""
    rough = max(roughness, SMOOTHEST)
    squared = rough * rough
    shininess = TWO / (squared * squared) - TWO
    facing = min(max(dot(normal, unit_vector(add(key, to_eye))), ZERO), ONE)
    gleam = power(facing, min(shininess, SHININESS_LIMIT))
    return min((shininess + EIGHT) / GLEAM_SPREAD * gleam * facing_key, GLEAM_LIMIT)


@inline_kernel
def reflected_light(
    color: Vector,
    finish: tuple[Vector, Single, Single, Single],
    normal: Vector,
    to_eye: Vector,
    lamps: tuple[Vector, Vector],
) -> Vector:
    """The light that reaches the camera; `finish` is glow, metallic, roughness and occlusion."""
    (glow, metallic, roughness, occlusion), (key, fill) = finish, lamps
    facing_key = max(dot(normal, key), ZERO)
    sky = (SKY_LEVEL + SKY_RISE * normal[1]) * occlusion
    diffuse = sky + KEY_LEVEL * facing_key + FILL_LEVEL * max(dot(normal, fill), ZERO)
    mirrored = surroundings(normal, to_eye, roughness) * occlusion
    mirrored = mirrored + GLEAM_LEVEL * highlight(normal, to_eye, key, facing_key, roughness)
    albedo = scale_by(color, WHITEST)
    metal = scale_by(albedo, metallic)
    bare = BARE_REFLECTANCE * (ONE - metallic)
    return (
        (albedo[0] - METAL_LOSS * metal[0]) * diffuse + (metal[0] + bare) * mirrored + glow[0],
        (albedo[1] - METAL_LOSS * metal[1]) * diffuse + (metal[1] + bare) * mirrored + glow[1],
        (albedo[2] - METAL_LOSS * metal[2]) * diffuse + (metal[2] + bare) * mirrored + glow[2],
    )


@inline_kernel
def load_vector(values: Pointer, first: int) -> Vector:
    return values[first], values[first + 1], values[first + 2]


@inline_kernel
def _row(block: Pointer, row: int, lane: int) -> Vector:
    return block[row + lane], block[row + LANES + lane], block[row + 2 * LANES + lane]


@kernel
def light_fragments(scene: ScenePointers) -> None:
    """Replace the colours of a block by light."""
    block = scene.block
    eye = load_vector(scene.lights, _EYE)
    lamps = load_vector(scene.lights, _KEY_LAMP), load_vector(scene.lights, _FILL_LAMP)
    for lane in range(LANES):
        color = _row(block, COLOR, lane)
        unlit = block[UNLIT + lane] > ZERO
        to_eye = unit_vector(subtract(eye, _row(block, POINT, lane)))
        normal = normal_seen_from(to_eye, _row(block, NORMAL, lane), _row(block, FLAT, lane))
        metallic, roughness = block[METALLIC + lane], block[ROUGHNESS + lane]
        finish = _row(block, GLOW, lane), metallic, roughness, block[OCCLUSION + lane]
        reflected = reflected_light(color, finish, normal, to_eye, lamps)
        block[COLOR + lane] = color[0] if unlit else reflected[0]
        block[COLOR + LANES + lane] = color[1] if unlit else reflected[1]
        block[COLOR + 2 * LANES + lane] = color[2] if unlit else reflected[2]
