"""Fragments -> what their surface is like."""

from renderers.raster import faces, light
from renderers.raster import scene as packed
from renderers.raster.compiling import Single, inline_kernel, kernel
from renderers.raster.faces import interpolate, interpolate_vector, slot_of, weights_at
from renderers.raster.light import Vector
from renderers.raster.scene import LANES, FragmentPointers, ScenePointers
from renderers.raster.texture_lookup import Color, sample_texture

_BASE, _METAL_ROUGH, _NORMAL, _OCCLUSION, _EMISSIVE = range(5)  # of packed.TEXTURES


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
    return sample_texture(scene, texture, u, v, density)


@inline_kernel
def color_at(scene: ScenePointers, slot: int, weights: Vector) -> Color:
    """Albedo and alpha."""
    base = scene.materials
    first = _material(scene, slot) * packed.MATERIAL_WIDTH
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
    values = scene.values
    a = slot * packed.SLOT_VALUES
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
    values = scene.materials
    first = _material(scene, slot) * packed.MATERIAL_WIDTH
    glow = values[first + 4], values[first + 5], values[first + 6]
    metallic = values[first + 7]
    roughness = values[first + 8]
    occlusion = light.ONE
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
