"""Fragments -> linear light: the twin of `renderers.shade`, `renderers.light` and `renderers.sampling`.

Values of one fragment are columns, "c k".
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from renderers.cuda.batch import Batch
from renderers.kernels.packed import (
    CHANNELS,
    LEVELS,
    MOVES,
    NEAREST,
    TEXTURES,
    UNLIT,
    UV_SET,
    WRAP_U,
    WRAP_V,
)
from renderers.light import BARE_REFLECTANCE, WHITEST
from renderers.shade import FLATTEST_BUMP

_AT_ONCE = 4_000_000
_BELOW_ONE = 1 - 1e-7
_REPEAT, _CLAMP = 0, 1
Columns = Float32[Tensor, "c k"]
Vectors = Float32[Tensor, "3 k"]


@dataclass(frozen=True, eq=False)
class Fragments:
    """Pairs at places on the screen, in samples."""

    pair: Int64[Tensor, " k"]
    x: Float64[Tensor, " k"]
    y: Float64[Tensor, " k"]

    def pieces(self) -> list["Fragments"]:
        columns = (one.split(_AT_ONCE) for one in (self.pair, self.x, self.y))
        return [Fragments(*piece) for piece in zip(*columns, strict=True)]


def shade(batch: Batch, at: Fragments) -> Float32[Tensor, "4 k"]:
    """Linear colour and alpha of each fragment."""
    return torch.cat([_Look(batch, piece).rgba() for piece in at.pieces()], dim=1)


def alpha(batch: Batch, at: Fragments) -> Float32[Tensor, " k"]:
    """Alpha alone, for tests before depth."""
    return torch.cat([_Look(batch, piece).color()[3] for piece in at.pieces()])


class _Look:
    """Some fragments, and what is known about them."""

    def __init__(self, batch: Batch, at: Fragments) -> None:
        self.batch, self.face = batch, batch.pair_face[at.pair]
        self.lights = batch.lights[batch.pair_view[at.pair]].T
        self.material = batch.material_of[self.face]
        self.vertex = batch.faces[self.face].T
        self.screen = batch.screen[batch.pair_corners[at.pair]].permute(1, 2, 0)
        self.weights = _corner_weights(self.screen, at)
        self.corners = batch.vertices[self.vertex].transpose(1, 2)

    def rgba(self) -> Float32[Tensor, "4 k"]:
        color = self.color()
        light = torch.cat([self.lit(color[:3]), color[3:]])
        return torch.where(self.batch.materials[self.material, UNLIT] > 0, color, light)

    def mixed(self, corners: Float32[Tensor, "3 c k"]) -> Columns:
        """Corner values in between."""
        a, b, c = self.weights
        mixed: Tensor = corners[0] * a + corners[1] * b + corners[2] * c
        return mixed

    def color(self) -> Float32[Tensor, "4 k"]:
        """Albedo and alpha."""
        own = self.mixed(self.batch.colors[self.vertex].transpose(1, 2))
        plain = (self.batch.colors == 1).all()
        base = self.batch.materials[self.material, :4].T
        return self.textured("base_texture", base if plain else base * own)

    def textured(self, name: str, values: Columns, channels: slice = slice(None)) -> Columns:
        """Values times the texture, where the material has one."""
        kind = TEXTURES.index(name)
        texture = self.batch.textures_of[self.material, kind]
        here = torch.nonzero(texture >= 0)[:, 0]
        result = values.clone()
        if len(here):
            result[:, here] = values[:, here] * self.texels(texture[here], here)[channels][: len(values)]
        return result

    def texels(self, texture: Int64[Tensor, " h"], here: Int64[Tensor, " h"]) -> Float32[Tensor, "4 h"]:
        """The textures of some fragments, there."""
        second = self.batch.maps[texture, UV_SET]
        corners = self.batch.uv[second, self.vertex[:, here]].transpose(1, 2)
        a, b, c = self.weights[:, here]
        u, v = corners[0] * a + corners[1] * b + corners[2] * c
        painted = _doubled_area(corners).abs().clamp(min=1e-12)
        drawn = _doubled_area(self.screen[:, :2, here]).abs().clamp(min=1e-6) / 4
        density = (0.5 * torch.log2(painted / drawn)).float()
        return _sample(self.batch, texture, u, v, density)

    def lit(self, color: Vectors) -> Vectors:
        """The light that reaches the camera."""
        eye, key, fill = self.lights[:3], self.lights[3:6], self.lights[6:]
        values = self.batch.materials[self.material].T
        glow = self.textured("emissive_texture", values[4:7])
        metallic = self.textured("metal_rough_texture", values[7:8], slice(2, 3))[0]
        roughness = self.textured("metal_rough_texture", values[8:9], slice(1, 2))[0]
        occlusion = self.textured("occlusion_texture", torch.ones_like(values[:1]), slice(0, 1))[0]
        to_eye = _unit(eye - self.mixed(self.corners))
        normal = self.normal_seen_from(to_eye, eye)
        facing_key = _dot(normal, key).clamp(min=0)
        sky = (0.325 + 0.075 * normal[1]) * occlusion
        diffuse = sky + 0.58 * facing_key + 0.16 * _dot(normal, fill).clamp(min=0)
        gleam = _highlight(normal, to_eye, key, facing_key, roughness)
        mirrored = _surroundings(normal, to_eye, roughness) * occlusion + 0.6 * gleam
        albedo = color * float(WHITEST)
        metal = albedo * metallic
        light = (albedo - 0.65 * metal) * diffuse
        light += (metal + float(BARE_REFLECTANCE) * (1 - metallic)) * mirrored
        return light + glow

    def normal_seen_from(self, to_eye: Vectors, eye: Vectors) -> Vectors:
        """The normal, turned to the side we see and never away from the eye."""
        normal = _unit(self.mixed(self.batch.normals[self.face].permute(1, 2, 0)))
        texture = self.batch.textures_of[self.material, TEXTURES.index("normal_texture")]
        here = torch.nonzero(texture >= 0)[:, 0]
        if len(here):
            normal[:, here] = self.bumped(normal[:, here], self.texels(texture[here], here)[:3], here)
        flat = _cross(self.corners[1] - self.corners[0], self.corners[2] - self.corners[0])
        flat = torch.where(_dot(flat, eye - self.corners[0]) < 0, -flat, flat)
        normal = torch.where(_dot(normal, flat) < 0, -normal, normal)
        return _unit(normal - _dot(normal, to_eye).clamp(max=0) * to_eye)

    def bumped(self, normal: Vectors, texels: Vectors, here: Int64[Tensor, " h"]) -> Vectors:
        """Normals leant over by a normal map."""
        corners, uv = self.corners[:, :, here], self.batch.uv[0, self.vertex[:, here]].transpose(1, 2)
        first, second = corners[1] - corners[0], corners[2] - corners[0]
        (u1, v1), (u2, v2) = uv[1] - uv[0], uv[2] - uv[0]
        side = torch.sign(u1 * v2 - v1 * u2)
        along = (first * v2 - second * v1) * side
        along = _unit(along - normal * _dot(normal, along))
        across = -_cross(normal, along) * side
        lean = 2 * texels - 1
        upward = lean[2].clamp(min=float(FLATTEST_BUMP))
        return _unit(along * lean[0] + across * lean[1] + normal * upward)


def _corner_weights(screen: Float64[Tensor, "3 3 k"], at: Fragments) -> Vectors:
    """How much each corner counts at a place, right in perspective."""
    after, before = screen[[1, 2, 0]], screen[[2, 0, 1]]
    weight = torch.sign(_doubled_area(screen[:, :2])) * screen[:, 2]
    a = (after[:, 1] - before[:, 1]) * weight
    b = (before[:, 0] - after[:, 0]) * weight
    c = (after[:, 0] * before[:, 1] - after[:, 1] * before[:, 0]) * weight
    shares = (a * at.x + b * at.y + c).clamp(min=0) + 1e-30
    weights: Tensor = (shares / (shares[0] + shares[1] + shares[2])).float()
    return weights


def _doubled_area(corners: Tensor) -> Tensor:
    first, second = corners[1] - corners[0], corners[2] - corners[0]
    return first[0] * second[1] - first[1] * second[0]


def _dot(first: Vectors, second: Vectors) -> Float32[Tensor, " k"]:
    product: Tensor = first[0] * second[0] + first[1] * second[1] + first[2] * second[2]
    return product


def _cross(first: Vectors, second: Vectors) -> Vectors:
    (a, b, c), (x, y, z) = first, second
    return torch.stack([b * z - c * y, c * x - a * z, a * y - b * x])


def _unit(vectors: Vectors) -> Vectors:
    return vectors / torch.sqrt(_dot(vectors, vectors)).clamp(min=1e-20)


def _surroundings(normal: Vectors, to_eye: Vectors, roughness: Float32[Tensor, " k"]) -> Tensor:
    """What a mirror would see, before occlusion."""
    height = 2 * _dot(normal, to_eye).clamp(min=0) * normal[1] - to_eye[1]
    upward = (0.5 * height + 0.5).clamp(0, 1)
    return 0.35 + 0.55 * upward ** (3 - 2 * roughness)


def _highlight(
    normal: Vectors,
    to_eye: Vectors,
    key: Vectors,
    facing_key: Float32[Tensor, " k"],
    roughness: Float32[Tensor, " k"],
) -> Tensor:
    """The gleam of the key light."""
    squared = torch.square(roughness.clamp(min=0.15))
    shininess = 2 / (squared * squared) - 2
    halfway = _unit(key + to_eye)
    gleam = _dot(normal, halfway).clamp(min=0) ** shininess.clamp(max=400)
    return ((shininess + 8) / 25 * gleam * facing_key).clamp(max=4)


def _sample(
    batch: Batch,
    texture: Int64[Tensor, " h"],
    u: Float32[Tensor, " h"],
    v: Float32[Tensor, " h"],
    density: Float32[Tensor, " h"],
) -> Float32[Tensor, "4 h"]:
    """Each fragment's texture: bilinear inside the nearest mip level; without alpha, 1."""
    maps, moves = batch.maps[texture].T, batch.moves[texture].T
    moved = maps[MOVES] > 0
    density = torch.where(moved, density + moves[6], density)
    u, v = (
        torch.where(moved, moves[0] * u + moves[1] * v + moves[2], u),
        torch.where(moved, moves[3] * u + moves[4] * v + moves[5], v),
    )
    fineness = density + moves[7]
    level = torch.minimum(torch.round(fineness).clamp(min=0).long(), maps[LEVELS] - 1)
    width, height, start = batch.levels[texture, level].T
    left, right, across = _neighbours(u, width, maps[WRAP_U])
    top, bottom, down = _neighbours(v, height, maps[WRAP_V])
    square = (maps[NEAREST] > 0) & (fineness < 0)
    across, down = (torch.where(square, torch.round(share), share) for share in (across, down))
    channel = torch.arange(4, device=batch.device)[:, None]
    shown = torch.minimum(channel, maps[CHANNELS] - 1)

    def texels(x: Tensor, y: Tensor) -> Tensor:
        return batch.texels[maps[0] + (start + y * width + x) * maps[CHANNELS] + shown]

    above = texels(left, top) + (texels(right, top) - texels(left, top)) * across
    below = texels(left, bottom) + (texels(right, bottom) - texels(left, bottom)) * across
    return torch.where(channel < maps[CHANNELS], above + (below - above) * down, 1)


def _neighbours(
    position: Float32[Tensor, " h"], length: Int64[Tensor, " h"], wrap: Int64[Tensor, " h"]
) -> tuple[Int64[Tensor, " h"], Int64[Tensor, " h"], Float32[Tensor, " h"]]:
    """The texels before and after a position, and how far it lies between them."""
    repeated, clamped = position - torch.floor(position), position.clamp(0, 1)
    mirrored = (position - 2 * torch.round(position / 2)).abs()
    inside = torch.where(wrap == _REPEAT, repeated, torch.where(wrap == _CLAMP, clamped, mirrored))
    place = inside.nan_to_num().clamp(max=_BELOW_ONE) * length.float() - 0.5
    floor = torch.floor(place)
    before, after = floor.long(), floor.long() + 1
    around = wrap == _REPEAT
    before = torch.where(before < 0, torch.where(around, length - 1, 0), before)
    after = torch.where(after >= length, torch.where(around, 0, length - 1), after)
    return before, after, place - floor
