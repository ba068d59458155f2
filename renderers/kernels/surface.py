"""Fragments -> linear light: the twin of `renderers.shade` and `renderers.light`.

What is the same all over a face in a view is worked out once and kept in one of the scene's slots, until
another face needs that slot.
"""

import numpy as np

from renderers.kernels.compiling import Single, kernel
from renderers.kernels.packed import MAP_WIDTH, MATERIAL_WIDTH, SLOT_VALUES, SLOTS, UNLIT, UV_SET
from renderers.kernels.scene import Pointer, Scene
from renderers.kernels.texture import Color, sample
from renderers.kernels.vectors import Vector, cross, dot, minus, plus, scaled, unit
from renderers.light import BARE_REFLECTANCE, WHITEST
from renderers.shade import FLATTEST_BUMP

F = np.float32
_WIDE = 14  # values of a corner: position, normal, uv, colour, second uv
_POINT, _TURN, _UV, _COLOR, _UV1 = 0, 3, 6, 8, 12
_FLAT, _DENSITY = 42, 45  # then the flat normal that faces us, and the density by each uv
_EYE, _KEY_LAMP, _FILL_LAMP = 0, 3, 6  # of the scene's lights
_BASE, _METAL_ROUGH, _NORMAL, _OCCLUSION, _EMISSIVE = range(5)  # of packed.TEXTURES
_ZERO, _HALF, _ONE, _TWO, _THREE, _FOUR = (F(number) for number in (0, 0.5, 1, 2, 3, 4))
_SKY, _SKY_RISE, _KEY, _FILL = F(0.325), F(0.075), F(0.58), F(0.16)
_MIRROR, _MIRROR_RISE, _GLEAM, _KEPT = F(0.35), F(0.55), F(0.6), F(0.65)
_SMOOTHEST, _SHINIEST, _EIGHT, _SPREAD = F(0.15), F(400), F(8), F(25)


@kernel
def slot_of(scene: Scene, face: int) -> int:
    """Where what is the same all over this face is kept; it is worked out unless it is there already."""
    slot = face & (SLOTS - 1)
    if scene.held[slot] != face:
        scene.held[slot] = face
        _set_values(scene, face, slot * SLOT_VALUES)
        _set_flat(scene, slot * SLOT_VALUES, max(abs(_set_planes(scene, face, 9 * slot)), 1e-6) / 4)
    return slot


@kernel
def _set_values(scene: Scene, face: int, at: int) -> None:
    values = scene.values
    for corner in range(3):
        vertex, first, turn = scene.faces[3 * face + corner], at + corner * _WIDE, 9 * face + 3 * corner
        for axis in range(3):
            values[first + _POINT + axis] = scene.vertices[3 * vertex + axis]
            values[first + _TURN + axis] = scene.normals[turn + axis]
        for axis in range(2):
            values[first + _UV + axis] = scene.uv[2 * vertex + axis]
            values[first + _UV1 + axis] = scene.uv1[2 * vertex + axis]
        for channel in range(4):
            values[first + _COLOR + channel] = scene.colors[4 * vertex + channel]


@kernel
def _set_planes(scene: Scene, face: int, at: int) -> float:
    """The corners' weights as planes over the screen; gives twice the face's area there."""
    screen, planes = scene.screen, scene.planes
    a, b, c = 3 * scene.faces[3 * face], 3 * scene.faces[3 * face + 1], 3 * scene.faces[3 * face + 2]
    area: float = (screen[b] - screen[a]) * (screen[c + 1] - screen[a + 1])
    area -= (screen[b + 1] - screen[a + 1]) * (screen[c] - screen[a])
    turn = np.sign(area)
    for plane in range(at, at + 9, 3):
        weight = turn * screen[a + 2]
        planes[plane] = (screen[b + 1] - screen[c + 1]) * weight
        planes[plane + 1] = (screen[c] - screen[b]) * weight
        planes[plane + 2] = (screen[b] * screen[c + 1] - screen[b + 1] * screen[c]) * weight
        a, b, c = b, c, a
    return area


@kernel
def _set_flat(scene: Scene, at: int, drawn: float) -> None:
    """The flat normal that faces us, and log2 of the length in texture coordinates that a pixel covers."""
    values, here = scene.values, _three(scene.values, at)
    first, second = minus(_three(values, at + _WIDE), here), minus(_three(values, at + 2 * _WIDE), here)
    flat = cross(first, second)
    if dot(flat, minus(_three(scene.lights, _EYE), here)) < 0:
        flat = scaled(flat, -_ONE)
    values[at + _FLAT], values[at + _FLAT + 1], values[at + _FLAT + 2] = flat
    for uv_set in range(scene.uv_sets):
        a = at + (_UV1 if uv_set else _UV)
        b, c = a + _WIDE, a + 2 * _WIDE
        painted = (values[b] - values[a]) * (values[c + 1] - values[a + 1])
        painted -= (values[b + 1] - values[a + 1]) * (values[c] - values[a])
        density = 0.5 * np.log2(np.float64(max(abs(painted), F(1e-12))) / drawn)
        values[at + _DENSITY + uv_set] = F(density)


@kernel
def _three(values: Pointer, first: int) -> Vector:
    return values[first], values[first + 1], values[first + 2]


@kernel
def weights_at(scene: Scene, slot: int, x: float, y: float) -> Vector:
    """How much each corner counts at a place, right in perspective."""
    planes, at = scene.planes, 9 * slot
    a = max(planes[at] * x + planes[at + 1] * y + planes[at + 2], 0.0) + 1e-30
    b = max(planes[at + 3] * x + planes[at + 4] * y + planes[at + 5], 0.0) + 1e-30
    c = max(planes[at + 6] * x + planes[at + 7] * y + planes[at + 8], 0.0) + 1e-30
    whole = a + b + c
    return F(a / whole), F(b / whole), F(c / whole)


@kernel
def _between(scene: Scene, slot: int, value: int, weights: Vector) -> Single:
    """One of the interpolated values."""
    values, at = scene.values, slot * SLOT_VALUES + value
    return values[at] * weights[0] + values[at + _WIDE] * weights[1] + values[at + 2 * _WIDE] * weights[2]


@kernel
def _mixed(scene: Scene, slot: int, first: int, weights: Vector) -> Vector:
    """Three of the interpolated values."""
    return (
        _between(scene, slot, first, weights),
        _between(scene, slot, first + 1, weights),
        _between(scene, slot, first + 2, weights),
    )


@kernel
def _material(scene: Scene, slot: int) -> int:
    return int(scene.material_of[scene.held[slot]])


@kernel
def _texture(scene: Scene, slot: int, kind: int) -> int:
    """The number of the material's texture of this kind, or -1."""
    return int(scene.textures_of[5 * _material(scene, slot) + kind])


@kernel
def _texel(scene: Scene, slot: int, texture: int, weights: Vector) -> Color:
    second = scene.maps[texture * MAP_WIDTH + UV_SET]
    first = _UV1 if second else _UV
    u, v = _between(scene, slot, first, weights), _between(scene, slot, first + 1, weights)
    return sample(scene, texture, u, v, scene.values[slot * SLOT_VALUES + _DENSITY + second])


@kernel
def color_at(scene: Scene, slot: int, weights: Vector) -> Color:
    """Albedo and alpha."""
    base, first, texture = (
        scene.materials,
        _material(scene, slot) * MATERIAL_WIDTH,
        _texture(scene, slot, _BASE),
    )
    color = base[first], base[first + 1], base[first + 2], base[first + 3]
    if scene.colored:
        red, green, blue = _mixed(scene, slot, _COLOR, weights)
        color = _times(color, (red, green, blue, _between(scene, slot, _COLOR + 3, weights)))
    if texture >= 0:
        color = _times(color, _texel(scene, slot, texture, weights))
    return color


@kernel
def _times(first: Color, second: Color) -> Color:
    return first[0] * second[0], first[1] * second[1], first[2] * second[2], first[3] * second[3]


@kernel
def shade(scene: Scene, slot: int, x: float, y: float) -> Color:
    """Linear colour and alpha of the face at a place on the screen."""
    weights = weights_at(scene, slot, x, y)
    color = color_at(scene, slot, weights)
    if scene.materials[_material(scene, slot) * MATERIAL_WIDTH + UNLIT] > 0:
        return color
    to_eye = unit(minus(_three(scene.lights, _EYE), _mixed(scene, slot, _POINT, weights)))
    normal = _normal_seen_from(scene, slot, weights, to_eye)
    light = _lit(scene, slot, weights, normal, to_eye, (color[0], color[1], color[2]))
    return light[0], light[1], light[2], color[3]


@kernel
def _normal_seen_from(scene: Scene, slot: int, weights: Vector, to_eye: Vector) -> Vector:
    """The normal, turned to the side we see and never away from the eye."""
    normal = unit(_mixed(scene, slot, _TURN, weights))
    texture = _texture(scene, slot, _NORMAL)
    if texture >= 0:
        x, y, z, _ = _texel(scene, slot, texture, weights)
        normal = _bumped(scene, slot, normal, (x, y, z))
    if dot(normal, _three(scene.values, slot * SLOT_VALUES + _FLAT)) < 0:
        normal = scaled(normal, -_ONE)
    return unit(minus(normal, scaled(to_eye, min(dot(normal, to_eye), _ZERO))))


@kernel
def _bumped(scene: Scene, slot: int, normal: Vector, texel: Vector) -> Vector:
    """A normal leant over by a normal map."""
    values, a = scene.values, slot * SLOT_VALUES
    b, c, here, uv = a + _WIDE, a + 2 * _WIDE, _three(values, a), _three(values, a + _UV)
    first, second = minus(_three(values, b), here), minus(_three(values, c), here)
    u1, v1, _ = minus(_three(values, b + _UV), uv)
    u2, v2, _ = minus(_three(values, c + _UV), uv)
    side = np.sign(u1 * v2 - v1 * u2)
    along = scaled(minus(scaled(first, v2), scaled(second, v1)), side)
    along = unit(minus(along, scaled(normal, dot(normal, along))))
    across = scaled(scaled(cross(normal, along), -_ONE), side)
    lean = _TWO * texel[0] - _ONE, _TWO * texel[1] - _ONE, max(_TWO * texel[2] - _ONE, FLATTEST_BUMP)
    return unit(plus(plus(scaled(along, lean[0]), scaled(across, lean[1])), scaled(normal, lean[2])))


@kernel
def _lit(
    scene: Scene,
    slot: int,
    weights: Vector,
    normal: Vector,
    to_eye: Vector,
    color: Vector,
) -> Vector:
    """The light that reaches the camera."""
    glow, metallic, roughness, occlusion = _finish(scene, slot, weights)
    key, fill = _three(scene.lights, _KEY_LAMP), _three(scene.lights, _FILL_LAMP)
    facing_key = max(dot(normal, key), _ZERO)
    sky = (_SKY + _SKY_RISE * normal[1]) * occlusion
    diffuse = sky + _KEY * facing_key + _FILL * max(dot(normal, fill), _ZERO)
    mirrored = _surroundings(normal, to_eye, roughness) * occlusion + _GLEAM * _highlight(
        normal, to_eye, key, facing_key, roughness
    )
    albedo = scaled(color, WHITEST)
    metal = scaled(albedo, metallic)
    bare = BARE_REFLECTANCE * (_ONE - metallic)
    return (
        (albedo[0] - _KEPT * metal[0]) * diffuse + (metal[0] + bare) * mirrored + glow[0],
        (albedo[1] - _KEPT * metal[1]) * diffuse + (metal[1] + bare) * mirrored + glow[1],
        (albedo[2] - _KEPT * metal[2]) * diffuse + (metal[2] + bare) * mirrored + glow[2],
    )


@kernel
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


@kernel
def _surroundings(normal: Vector, to_eye: Vector, roughness: Single) -> Single:
    """What a mirror would see, before occlusion."""
    facing = max(dot(normal, to_eye), _ZERO)
    height = _TWO * facing * normal[1] - to_eye[1]
    upward = min(max(_HALF * height + _HALF, _ZERO), _ONE)
    return _MIRROR + _MIRROR_RISE * upward ** (_THREE - _TWO * roughness)


@kernel
def _highlight(normal: Vector, to_eye: Vector, key: Vector, facing_key: Single, roughness: Single) -> Single:
    """The gleam of the key light."""
    if facing_key == 0:
        return _ZERO
    rough = max(roughness, _SMOOTHEST)
    squared = rough * rough
    shininess = _TWO / (squared * squared) - _TWO
    halfway = unit(plus(key, to_eye))
    gleam = max(dot(normal, halfway), _ZERO) ** min(shininess, _SHINIEST)
    return min((shininess + _EIGHT) / _SPREAD * gleam * facing_key, _FOUR)
