"""How light meets a surface: the twin of `renderers.raster.spans.light`, for a block of fragments at once.

A block is a table of float32 with a row for each value below and `LANES` fragments in each row. All lanes
are worked out alike and without branches, so that the compiler takes eight or sixteen at a time; powers,
too, are written so that it can.
"""

import numpy as np

from renderers.raster.kernels.compiling import Single, bits_of, inline_kernel, kernel, single_of
from renderers.raster.kernels.scene import LANES, Pointer, ScenePointers
from renderers.raster.kernels.vectors import Vector, add, dot, scale_by, subtract, unit_vector
from renderers.raster.light import (
    BARE_REFLECTANCE,
    EXP2_SERIES,
    EXPONENT_BIAS,
    LOG2_SERIES,
    MANTISSA_BITS,
    ONE,
    ROOT_BITS,
    ROUND_UP,
    SMALLEST_BASE,
    SMALLEST_EXPONENT,
    WHITEST,
)

_LOG0, _LOG1, _LOG2, _LOG3, _LOG4 = LOG2_SERIES
_EXP0, _EXP1, _EXP2, _EXP3, _EXP4, _EXP5, _EXP6 = EXP2_SERIES
Bits = np.int32


@inline_kernel
def power(base: Single, exponent: Single) -> Single:
    """`base ** exponent` for bases from 0 to 1 and exponents from 0 up."""
    return _two_to(max(exponent * _log2(max(base, SMALLEST_BASE)), SMALLEST_EXPONENT))


@inline_kernel
def _log2(base: Single) -> Single:
    bits = bits_of(base)
    whole = Bits(Bits(bits - ROOT_BITS) >> MANTISSA_BITS)
    mantissa = single_of(Bits(bits - Bits(whole << MANTISSA_BITS)))
    ratio = (mantissa - ONE) / (mantissa + ONE)
    squared = ratio * ratio
    series = (((squared * _LOG4 + _LOG3) * squared + _LOG2) * squared + _LOG1) * squared + _LOG0
    return np.float32(whole) + ratio * series


@inline_kernel
def _two_to(exponent: Single) -> Single:
    biased = Bits(exponent + ROUND_UP)
    rest = exponent - np.float32(Bits(biased - EXPONENT_BIAS))
    series = ((rest * _EXP6 + _EXP5) * rest + _EXP4) * rest + _EXP3
    series = ((series * rest + _EXP2) * rest + _EXP1) * rest + _EXP0
    return series * single_of(Bits(biased << MANTISSA_BITS))


F = np.float32
# rows: colours are overwritten by the light that reaches the camera
COLOR, ALPHA, POINT, NORMAL, FLAT, GLOW, METALLIC, ROUGHNESS, OCCLUSION, UNLIT = (
    row * LANES for row in (0, 3, 4, 7, 10, 13, 16, 17, 18, 19)
)
_EYE, _KEY_LAMP, _FILL_LAMP = 0, 3, 6  # of the scene's lights
_ZERO, _HALF, _ONE, _TWO, _THREE, _FOUR = (F(number) for number in (0, 0.5, 1, 2, 3, 4))
_SKY, _SKY_RISE, _KEY, _FILL = F(0.325), F(0.075), F(0.58), F(0.16)
_MIRROR, _MIRROR_RISE, _GLEAM, _KEPT = F(0.35), F(0.55), F(0.6), F(0.65)
_SMOOTHEST, _SHINIEST, _EIGHT, _SPREAD = F(0.15), F(400), F(8), F(25)


@kernel
def light_fragments(scene: ScenePointers) -> None:
    """Replace the colours of a block by light."""
    block, eye = scene.block, _three(scene.lights, _EYE)
    key, fill = _three(scene.lights, _KEY_LAMP), _three(scene.lights, _FILL_LAMP)
    for lane in range(LANES):
        color, unlit = _row(block, COLOR, lane), block[UNLIT + lane] > _ZERO
        to_eye = unit_vector(subtract(eye, _row(block, POINT, lane)))
        normal = _seen_from(to_eye, _row(block, NORMAL, lane), _row(block, FLAT, lane))
        light = _lit(block, lane, normal, to_eye, key, fill)
        block[COLOR + lane] = color[0] if unlit else light[0]
        block[COLOR + LANES + lane] = color[1] if unlit else light[1]
        block[COLOR + 2 * LANES + lane] = color[2] if unlit else light[2]


@inline_kernel
def _three(values: Pointer, first: int) -> Vector:
    return values[first], values[first + 1], values[first + 2]


@inline_kernel
def _row(block: Pointer, row: int, lane: int) -> Vector:
    return block[row + lane], block[row + LANES + lane], block[row + 2 * LANES + lane]


@inline_kernel
def _seen_from(to_eye: Vector, leaning: Vector, flat: Vector) -> Vector:
    """The normal, turned to the side we see and never away from the eye."""
    normal = unit_vector(leaning)
    normal = scale_by(normal, -_ONE if dot(normal, flat) < _ZERO else _ONE)
    return unit_vector(subtract(normal, scale_by(to_eye, min(dot(normal, to_eye), _ZERO))))


@inline_kernel
def _lit(block: Pointer, lane: int, normal: Vector, to_eye: Vector, key: Vector, fill: Vector) -> Vector:
    """The light that reaches the camera."""
    metallic, roughness = block[METALLIC + lane], block[ROUGHNESS + lane]
    occlusion, glow = block[OCCLUSION + lane], _row(block, GLOW, lane)
    facing_key = max(dot(normal, key), _ZERO)
    sky = (_SKY + _SKY_RISE * normal[1]) * occlusion
    diffuse = sky + _KEY * facing_key + _FILL * max(dot(normal, fill), _ZERO)
    mirrored = _surroundings(normal, to_eye, roughness) * occlusion + _GLEAM * _highlight(
        normal, to_eye, key, facing_key, roughness
    )
    albedo = scale_by(_row(block, COLOR, lane), WHITEST)
    metal = scale_by(albedo, metallic)
    bare = BARE_REFLECTANCE * (_ONE - metallic)
    return (
        (albedo[0] - _KEPT * metal[0]) * diffuse + (metal[0] + bare) * mirrored + glow[0],
        (albedo[1] - _KEPT * metal[1]) * diffuse + (metal[1] + bare) * mirrored + glow[1],
        (albedo[2] - _KEPT * metal[2]) * diffuse + (metal[2] + bare) * mirrored + glow[2],
    )


@inline_kernel
def _surroundings(normal: Vector, to_eye: Vector, roughness: Single) -> Single:
    """What a mirror would see, before occlusion."""
    facing = max(dot(normal, to_eye), _ZERO)
    height = _TWO * facing * normal[1] - to_eye[1]
    upward = min(max(_HALF * height + _HALF, _ZERO), _ONE)
    return _MIRROR + _MIRROR_RISE * power(upward, _THREE - _TWO * roughness)


@inline_kernel
def _highlight(normal: Vector, to_eye: Vector, key: Vector, facing_key: Single, roughness: Single) -> Single:
    """The gleam of the key light."""
    rough = max(roughness, _SMOOTHEST)
    squared = rough * rough
    shininess = _TWO / (squared * squared) - _TWO
    facing = min(max(dot(normal, unit_vector(add(key, to_eye))), _ZERO), _ONE)
    gleam = power(facing, min(shininess, _SHINIEST))
    return min((shininess + _EIGHT) / _SPREAD * gleam * facing_key, _FOUR)
