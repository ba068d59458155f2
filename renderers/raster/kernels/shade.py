"""Fragments -> what their surface is like: the twin of `renderers.raster.shade` and `texture_lookup`."""

from typing import TypeAlias

import numpy as np

from renderers.raster import texture_lookup
from renderers.raster.kernels import faces, light
from renderers.raster.kernels import scene as packed
from renderers.raster.kernels.compiling import Single, float_pointer, inline_kernel, inline_twins, kernel
from renderers.raster.kernels.faces import interpolate, interpolate_vector, slot_of, weights_at
from renderers.raster.kernels.light import Vector
from renderers.raster.kernels.scene import LANES, FragmentPointers, Pointer, ScenePointers

Color: TypeAlias = tuple[Single, Single, Single, Single]
_BASE, _METAL_ROUGH, _NORMAL, _OCCLUSION, _EMISSIVE = range(5)  # of packed.TEXTURES
_ZERO, _ONE = np.float32(0), np.float32(1)
_, _neighbours = inline_twins(texture_lookup.wrapped, texture_lookup.neighbours)


@kernel
def shade_fragments(scene: ScenePointers, listed: FragmentPointers, count: int) -> None:
    """Fill in the linear colour and alpha of the first so many fragments."""
    for first in range(0, count, LANES):
        lanes = min(LANES, count - first)
        for lane in range(lanes):
            _gather(scene, listed, first + lane, lane)
        light.light_fragments(scene)
        for lane in range(lanes):
            for channel in range(4):
                listed.colors[4 * (first + lane) + channel] = scene.block[channel * LANES + lane]


@inline_kernel
def _gather(scene: ScenePointers, listed: FragmentPointers, fragment: int, lane: int) -> None:
    """Put what is known of a fragment into the block."""
    slot = slot_of(scene, listed.faces[fragment])
    weights = weights_at(scene, slot, listed.x[fragment], listed.y[fragment])
    glow, metallic, roughness, occlusion = _finish(scene, slot, weights)
    red, green, blue, alpha = color_at(scene, slot, weights)
    _put(scene, light.COLOR + lane, (red, green, blue))
    _put(scene, light.POINT + lane, interpolate_vector(scene, slot, faces.POINT, weights))
    _put(scene, light.NORMAL + lane, _leaning(scene, slot, weights))
    _put(scene, light.FLAT + lane, light.load_vector(scene.values, slot * packed.SLOT_VALUES + faces.FLAT))
    _put(scene, light.GLOW + lane, glow)
    scene.block[light.ALPHA + lane] = alpha
    scene.block[light.METALLIC + lane] = metallic
    scene.block[light.ROUGHNESS + lane] = roughness
    scene.block[light.OCCLUSION + lane] = occlusion
    material = _material(scene, slot) * packed.MATERIAL_WIDTH
    scene.block[light.UNLIT + lane] = scene.materials[material + packed.UNLIT]


@inline_kernel
def _put(scene: ScenePointers, at: int, vector: Vector) -> None:
    scene.block[at], scene.block[at + LANES], scene.block[at + 2 * LANES] = vector


@inline_kernel
def _material(scene: ScenePointers, slot: int) -> int:
    return int(scene.material_of[scene.held[slot]])


@inline_kernel
def _texture(scene: ScenePointers, slot: int, kind: int) -> int:
    """The number of the material's texture of this kind, or -1."""
    return int(scene.textures_of[5 * _material(scene, slot) + kind])


@inline_kernel
def _texel(scene: ScenePointers, slot: int, texture: int, weights: Vector) -> Color:
    second = scene.maps[texture * packed.MAP_WIDTH + packed.UV_SET]
    first = faces.UV1 if second else faces.UV
    u, v = interpolate(scene, slot, first, weights), interpolate(scene, slot, first + 1, weights)
    density = scene.values[slot * packed.SLOT_VALUES + faces.DENSITY + second]
    return _sample_texture(scene, texture, u, v, density)


@inline_kernel
def color_at(scene: ScenePointers, slot: int, weights: Vector) -> Color:
    """Albedo and alpha."""
    base, first = scene.materials, _material(scene, slot) * packed.MATERIAL_WIDTH
    texture = _texture(scene, slot, _BASE)
    color = base[first], base[first + 1], base[first + 2], base[first + 3]
    if scene.colored:
        red, green, blue = interpolate_vector(scene, slot, faces.COLOR, weights)
        color = _times(color, (red, green, blue, interpolate(scene, slot, faces.COLOR + 3, weights)))
    if texture >= 0:
        color = _times(color, _texel(scene, slot, texture, weights))
    return color


@inline_kernel
def _times(first: Color, second: Color) -> Color:
    return first[0] * second[0], first[1] * second[1], first[2] * second[2], first[3] * second[3]


@inline_kernel
def _leaning(scene: ScenePointers, slot: int, weights: Vector) -> Vector:
    """The direction of the normal."""
    normal = interpolate_vector(scene, slot, faces.NORMAL_AT, weights)
    texture = _texture(scene, slot, _NORMAL)
    if texture >= 0:
        x, y, z, _ = _texel(scene, slot, texture, weights)
        normal = _bumped(scene, slot, light.unit_vector(normal), (x, y, z))
    return normal


@kernel
def _bumped(scene: ScenePointers, slot: int, normal: Vector, texel: Vector) -> Vector:
    """The direction of a normal leant over by a normal map."""
    values, a = scene.values, slot * packed.SLOT_VALUES
    b, c = a + faces.CORNER_WIDTH, a + 2 * faces.CORNER_WIDTH
    here = light.load_vector(values, a)
    first = light.subtract(light.load_vector(values, b), here)
    second = light.subtract(light.load_vector(values, c), here)
    a, b, c = a + faces.UV, b + faces.UV, c + faces.UV
    first_uv = values[b] - values[a], values[b + 1] - values[a + 1]
    second_uv = values[c] - values[a], values[c + 1] - values[a + 1]
    leaning: Vector = light.lean_normal(normal, (first, second), (first_uv, second_uv), texel)
    return leaning


@inline_kernel
def _finish(scene: ScenePointers, slot: int, weights: Vector) -> tuple[Vector, Single, Single, Single]:
    """Glow, metallic, roughness and occlusion."""
    values, first = scene.materials, _material(scene, slot) * packed.MATERIAL_WIDTH
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
def _sample_texture(scene: ScenePointers, number: int, u: Single, v: Single, density: Single) -> Color:
    """A texture's value at u, v: bilinear inside the nearest mip level; without alpha, 1."""
    maps, moves, first, move = scene.maps, scene.moves, number * packed.MAP_WIDTH, number * 8
    if maps[first + packed.TRANSFORMED]:
        density = density + moves[move + 6]
        u, v = (
            moves[move] * u + moves[move + 1] * v + moves[move + 2],
            moves[move + 3] * u + moves[move + 4] * v + moves[move + 5],
        )
    fineness = density + moves[move + 7]
    level = int(min(max(np.rint(fineness), _ZERO), np.float32(maps[first + packed.LEVELS] - 1)))
    entry = 3 * (number * packed.MOST_LEVELS + level)
    width, height, start = scene.levels[entry], scene.levels[entry + 1], scene.levels[entry + 2]
    left, right, across = _neighbours(u, width, maps[first + packed.WRAP_U])
    top, bottom, down = _neighbours(v, height, maps[first + packed.WRAP_V])
    if maps[first + packed.NEAREST] and fineness < 0:
        across, down = np.rint(across), np.rint(down)
    texels, channels = float_pointer(maps[first]), maps[first + packed.CHANNELS]
    above, below, left, right = start + top * width, start + bottom * width, left * channels, right * channels
    a, b = above * channels + left, above * channels + right
    c, d = below * channels + left, below * channels + right
    return (
        _mixed(texels, a, b, c, d, across, down),
        _mixed(texels, a + 1, b + 1, c + 1, d + 1, across, down),
        _mixed(texels, a + 2, b + 2, c + 2, d + 2, across, down),
        _mixed(texels, a + 3, b + 3, c + 3, d + 3, across, down) if channels == 4 else _ONE,
    )


@inline_kernel
def _mixed(texels: Pointer, a: int, b: int, c: int, d: int, across: Single, down: Single) -> Single:
    above = texels[a] + (texels[b] - texels[a]) * across
    below = texels[c] + (texels[d] - texels[c]) * across
    return above + (below - above) * down
