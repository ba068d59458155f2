"""Fragments -> what their surface is like: the twin of `renderers.shade`."""

import numpy as np

from renderers.kernels import light
from renderers.kernels.compiling import Single, inlined, kernel
from renderers.kernels.faces import (
    COLOR,
    DENSITY,
    FLAT,
    POINT,
    TURN,
    UV,
    UV1,
    WIDE,
    between,
    mixed,
    slot_of,
    three,
    weights_at,
)
from renderers.kernels.packed import LANES, MAP_WIDTH, MATERIAL_WIDTH, SLOT_VALUES, UNLIT, UV_SET
from renderers.kernels.scene import Listed, Scene
from renderers.kernels.texture import Color, sample
from renderers.kernels.vectors import Vector, cross, dot, minus, plus, scaled, unit
from renderers.shade import FLATTEST_BUMP

F = np.float32
_BASE, _METAL_ROUGH, _NORMAL, _OCCLUSION, _EMISSIVE = range(5)  # of packed.TEXTURES
_ZERO, _ONE, _TWO = F(0), F(1), F(2)


@kernel
def shade_all(scene: Scene, listed: Listed, count: int) -> None:
    """Fill in the linear colour and alpha of the first so many fragments."""
    for first in range(0, count, LANES):
        lanes = min(LANES, count - first)
        for lane in range(lanes):
            _gather(scene, listed, first + lane, lane)
        light.light_block(scene)
        for lane in range(lanes):
            for channel in range(4):
                listed.colors[4 * (first + lane) + channel] = scene.block[channel * LANES + lane]


@inlined
def _gather(scene: Scene, listed: Listed, fragment: int, lane: int) -> None:
    """Put what is known of a fragment into the block."""
    slot = slot_of(scene, listed.faces[fragment])
    weights = weights_at(scene, slot, listed.x[fragment], listed.y[fragment])
    glow, metallic, roughness, occlusion = _finish(scene, slot, weights)
    red, green, blue, alpha = color_at(scene, slot, weights)
    _put(scene, light.COLOR + lane, (red, green, blue))
    _put(scene, light.POINT + lane, mixed(scene, slot, POINT, weights))
    _put(scene, light.NORMAL + lane, _leaning(scene, slot, weights))
    _put(scene, light.FLAT + lane, three(scene.values, slot * SLOT_VALUES + FLAT))
    _put(scene, light.GLOW + lane, glow)
    scene.block[light.ALPHA + lane] = alpha
    scene.block[light.METALLIC + lane] = metallic
    scene.block[light.ROUGHNESS + lane] = roughness
    scene.block[light.OCCLUSION + lane] = occlusion
    scene.block[light.UNLIT + lane] = scene.materials[_material(scene, slot) * MATERIAL_WIDTH + UNLIT]


@inlined
def _put(scene: Scene, at: int, vector: Vector) -> None:
    scene.block[at], scene.block[at + LANES], scene.block[at + 2 * LANES] = vector


@inlined
def _material(scene: Scene, slot: int) -> int:
    return int(scene.material_of[scene.held[slot]])


@inlined
def _texture(scene: Scene, slot: int, kind: int) -> int:
    """The number of the material's texture of this kind, or -1."""
    return int(scene.textures_of[5 * _material(scene, slot) + kind])


@inlined
def _texel(scene: Scene, slot: int, texture: int, weights: Vector) -> Color:
    second = scene.maps[texture * MAP_WIDTH + UV_SET]
    first = UV1 if second else UV
    u, v = between(scene, slot, first, weights), between(scene, slot, first + 1, weights)
    return sample(scene, texture, u, v, scene.values[slot * SLOT_VALUES + DENSITY + second])


@inlined
def color_at(scene: Scene, slot: int, weights: Vector) -> Color:
    """Albedo and alpha."""
    base, first, texture = (
        scene.materials,
        _material(scene, slot) * MATERIAL_WIDTH,
        _texture(scene, slot, _BASE),
    )
    color = base[first], base[first + 1], base[first + 2], base[first + 3]
    if scene.colored:
        red, green, blue = mixed(scene, slot, COLOR, weights)
        color = _times(color, (red, green, blue, between(scene, slot, COLOR + 3, weights)))
    if texture >= 0:
        color = _times(color, _texel(scene, slot, texture, weights))
    return color


@inlined
def _times(first: Color, second: Color) -> Color:
    return first[0] * second[0], first[1] * second[1], first[2] * second[2], first[3] * second[3]


@inlined
def _leaning(scene: Scene, slot: int, weights: Vector) -> Vector:
    """The direction of the normal."""
    normal, texture = mixed(scene, slot, TURN, weights), _texture(scene, slot, _NORMAL)
    if texture >= 0:
        x, y, z, _ = _texel(scene, slot, texture, weights)
        normal = _bumped(scene, slot, unit(normal), (x, y, z))
    return normal


@kernel
def _bumped(scene: Scene, slot: int, normal: Vector, texel: Vector) -> Vector:
    """The direction of a normal leant over by a normal map."""
    values, a = scene.values, slot * SLOT_VALUES
    b, c, here, uv = a + WIDE, a + 2 * WIDE, three(values, a), three(values, a + UV)
    first, second = minus(three(values, b), here), minus(three(values, c), here)
    u1, v1, _ = minus(three(values, b + UV), uv)
    u2, v2, _ = minus(three(values, c + UV), uv)
    side = np.sign(u1 * v2 - v1 * u2)
    along = scaled(minus(scaled(first, v2), scaled(second, v1)), side)
    along = unit(minus(along, scaled(normal, dot(normal, along))))
    across = scaled(scaled(cross(normal, along), -_ONE), side)
    lean = _TWO * texel[0] - _ONE, _TWO * texel[1] - _ONE, max(_TWO * texel[2] - _ONE, FLATTEST_BUMP)
    return plus(plus(scaled(along, lean[0]), scaled(across, lean[1])), scaled(normal, lean[2]))


@inlined
def _finish(scene: Scene, slot: int, weights: Vector) -> tuple[Vector, Single, Single, Single]:
    """Glow, metallic, roughness and occlusion."""
    values, first = scene.materials, _material(scene, slot) * MATERIAL_WIDTH
    glow = values[first + 4], values[first + 5], values[first + 6]
    metallic, roughness, occlusion = values[first + 7], values[first + 8], _ONE
    texture = _texture(scene, slot, _METAL_ROUGH)
    if texture >= 0:
        _, green, blue, _ = _texel(scene, slot, texture, weights)
        metallic, roughness = metallic * blue, roughness * green
    texture = _texture(scene, slot, _OCCLUSION)
    if texture >= 0:
        occlusion = _texel(scene, slot, texture, weights)[0]
    texture = _texture(scene, slot, _EMISSIVE)
    if texture >= 0:
        red, green, blue, _ = _texel(scene, slot, texture, weights)
        glow = glow[0] * red, glow[1] * green, glow[2] * blue
    return glow, metallic, roughness, occlusion
