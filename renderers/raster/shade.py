"""Fragments -> linear light: what a face looks like at a place on the screen.

Values of one fragment are columns, "c k"; fragments are shaded in pieces that stay in the processor's caches.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int64

from renderers.contracts import Texture
from renderers.raster.light import SurfaceSamples, dot_columns, reflected_light, unit_columns
from renderers.raster.scene import Fragments, RasterScene, VisibleFaces, visible_faces
from renderers.raster.texture_lookup import sample_texture

TextureName: TypeAlias = Literal[
    "base_texture", "metal_rough_texture", "normal_texture", "occlusion_texture", "emissive_texture"
]
FLATTEST_BUMP = np.float32(0.2)  # how far a normal map may lean a surface over
_AT_ONCE = 8192


def shade_fragments(scene: RasterScene, at: Fragments) -> Float32[np.ndarray, "4 k"]:
    """Linear colour and alpha of each fragment."""
    return _join([look.rgba() for look in _shadings(scene, at)], 4)


def fragment_alpha(scene: RasterScene, at: Fragments) -> Float32[np.ndarray, " k"]:
    """Alpha alone, for tests before depth."""
    alphas: Float32[np.ndarray, " k"] = _join([look.color[3:] for look in _shadings(scene, at)], 1)[0]
    return alphas


def _shadings(scene: RasterScene, at: Fragments) -> Iterator["_Shading"]:
    visible = visible_faces(scene, at)
    for start in range(0, len(at), _AT_ONCE):
        piece = slice(start, start + _AT_ONCE)
        yield _Shading(scene, at[piece], visible, visible.number[piece])


def _join(pieces: list[Float32[np.ndarray, "c _"]], channels: int) -> Float32[np.ndarray, "c k"]:
    return np.concatenate([np.zeros((channels, 0), np.float32), *pieces], axis=1)


class _Shading:
    """A piece of the fragments, with what is worked out about them, each thing once."""

    def __init__(
        self, scene: RasterScene, at: Fragments, visible: VisibleFaces, number: Int64[np.ndarray, " k"]
    ) -> None:
        self.scene, self.view = scene, at.view
        self.material = np.take(scene.model.material_of, at.face)
        self.table = np.ascontiguousarray(np.take(visible.table, number, axis=0).T)
        planes = np.ascontiguousarray(np.take(visible.planes, number, axis=0).T)
        sets = scene.uv_sets
        self.corners = self.table[: -3 - sets].reshape(3, -1, len(at))
        self.flat, self.density = self.table[-3 - sets : -sets], self.table[-sets:]
        weights = corner_weights(planes, at.x, at.y)
        mixed = self.corners[0] * weights[0] + self.corners[1] * weights[1] + self.corners[2] * weights[2]
        self.point, self.normal, self.own_color = mixed[:3], mixed[3:6], mixed[8:12]
        self.uv = mixed[6:8], mixed[-2:]

    def rgba(self) -> Float32[np.ndarray, "4 k"]:
        key, fill = self.scene.lamps
        rgba = np.empty_like(self.color)
        rgba[:3] = reflected_light(
            self.surface(), np.take(key, self.view, axis=1), np.take(fill, self.view, axis=1)
        )
        rgba[3] = self.color[3]
        unlit = self.of_material(slice(9, 10))[0] > 0
        return np.where(unlit, self.color, rgba) if unlit.any() else rgba

    def of_material(self, rows: slice) -> Float32[np.ndarray, "c k"]:
        """Rows of the material table."""
        return np.stack([np.take(row, self.material) for row in self.scene.materials[rows]])

    @cached_property
    def color(self) -> Float32[np.ndarray, "4 k"]:
        """Albedo and alpha."""
        color = self.of_material(slice(0, 4))
        if self.scene.model.colored:
            color *= self.own_color
        for here, texels in self.textured("base_texture"):
            color[:, here] *= texels
        return color

    def surface(self) -> SurfaceSamples:
        glow, (metallic, roughness) = self.of_material(slice(4, 7)), self.of_material(slice(7, 9))
        occlusion = np.ones_like(metallic)
        for here, texels in self.textured("metal_rough_texture"):
            roughness[here] *= texels[1]
            metallic[here] *= texels[2]
        for here, texels in self.textured("occlusion_texture"):
            occlusion[here] = texels[0]
        for here, texels in self.textured("emissive_texture"):
            glow[:, here] *= texels
        to_eye = unit_columns(np.take(self.scene.eyes, self.view, axis=1) - self.point)
        return SurfaceSamples(
            self.normal_seen_from(to_eye), to_eye, self.color[:3], glow, metallic, roughness, occlusion
        )

    def normal_seen_from(self, to_eye: Float32[np.ndarray, "3 k"]) -> Float32[np.ndarray, "3 k"]:
        """The normal, turned to the side we see and never away from the eye."""
        normal = self.normal.copy()
        for here, texels in self.textured("normal_texture"):
            normal[:, here] = self.bumped(unit_columns(normal[:, here]), texels, here)
        normal = unit_columns(normal)
        normal *= np.where(dot_columns(normal, self.flat) < 0, np.float32(-1), np.float32(1))
        return unit_columns(normal - np.minimum(dot_columns(normal, to_eye), 0) * to_eye)

    def bumped(
        self,
        normal: Float32[np.ndarray, "3 h"],
        texels: Float32[np.ndarray, "3 h"],
        here: slice | Int64[np.ndarray, " h"],
    ) -> Float32[np.ndarray, "3 h"]:
        """Directions of normals leant over by a normal map; the map's axes follow the texture coordinates."""
        corners = self.corners[:, :, here]
        first, second = corners[1] - corners[0], corners[2] - corners[0]
        side = np.sign(first[6] * second[7] - first[7] * second[6])
        along = (first[:3] * second[7] - second[:3] * first[7]) * side
        along = unit_columns(along - normal * dot_columns(normal, along))
        # in glTF the picture's v runs down and the map's green axis up, hence the minus
        across = -np.cross(normal, along, axis=0) * side
        lean = 2 * texels - 1
        leant: Float32[np.ndarray, "3 h"] = along * lean[0] + across * lean[1]
        leant += normal * np.maximum(lean[2], FLATTEST_BUMP)
        return leant

    def textured(
        self, name: TextureName
    ) -> Iterator[tuple[slice | Int64[np.ndarray, " h"], Float32[np.ndarray, "c h"]]]:
        """For each material that has this texture: which fragments it has, and the texture there."""
        materials = self.scene.model.materials
        for number, material in enumerate(materials):
            texture: Texture | None = getattr(material, name)
            if texture is None:
                continue
            here = slice(None) if len(materials) == 1 else np.flatnonzero(self.material == number)
            if isinstance(here, slice) or len(here):
                uv, density = self.uv[texture.uv_set], self.density[texture.uv_set]
                yield here, sample_texture(texture, uv[:, here], density[here])


def corner_weights(
    planes: Float64[np.ndarray, "9 k"], x: Float64[np.ndarray, " k"], y: Float64[np.ndarray, " k"]
) -> Float32[np.ndarray, "3 k"]:
    """How much each corner counts at a place, right in perspective."""
    a, b, c = planes.reshape(3, 3, -1).transpose(1, 0, 2)
    shares = np.maximum(a * x + b * y + c, 0) + 1e-30  # samples may lie a rounding error outside
    weights: Float32[np.ndarray, "3 k"] = (shares / (shares[0] + shares[1] + shares[2])).astype(np.float32)
    return weights
