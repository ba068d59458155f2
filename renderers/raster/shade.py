"""Fragments -> linear light: what a face looks like at a place on the screen.

Values of one fragment are columns, "c k"; fragments are shaded in pieces that stay in the processor's caches.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int64

from renderers.contracts import Texture
from renderers.raster.light import lean_normal, normal_seen_from, reflected_light, subtract, unit_vector
from renderers.raster.scene import Fragments, RasterScene, VisibleFaces, visible_faces
from renderers.raster.texture_lookup import sample_texture

Row: TypeAlias = Float32[np.ndarray, " k"]
Wholes: TypeAlias = Int64[np.ndarray, " h"]
Finish: TypeAlias = tuple[Float32[np.ndarray, "3 k"], Row, Row, Row]
_AT_ONCE = 8192


def shade_fragments(scene: RasterScene, at: Fragments) -> Float32[np.ndarray, "4 k"]:
    """Linear colour and alpha of each fragment."""
    empty = np.zeros((4, 0), np.float32)
    return np.concatenate([empty, *(shading.rgba() for shading in _shadings(scene, at))], axis=1)


def fragment_alpha(scene: RasterScene, at: Fragments) -> Float32[np.ndarray, " k"]:
    """Alpha alone, for tests before depth."""
    empty = np.zeros(0, np.float32)
    return np.concatenate([empty, *(shading.color[3] for shading in _shadings(scene, at))])


def _shadings(scene: RasterScene, at: Fragments) -> Iterator["_Shading"]:
    visible = visible_faces(scene, at)
    for start in range(0, len(at), _AT_ONCE):
        piece = slice(start, start + _AT_ONCE)
        yield _Shading(scene, at[piece], visible, visible.number[piece])


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
        to_eye = unit_vector(subtract(np.take(self.scene.eyes, self.view, axis=1), self.point))
        normal = normal_seen_from(to_eye, self.leaning(), self.flat)
        key, fill = (np.take(lamp, self.view, axis=1) for lamp in self.scene.lamps)
        light = reflected_light(self.color, self.finish(), normal, to_eye, (key, fill))
        rgba = np.stack([*light, self.color[3]])
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

    def finish(self) -> Finish:
        """Glow, metallic, roughness and occlusion."""
        glow, (metallic, roughness) = self.of_material(slice(4, 7)), self.of_material(slice(7, 9))
        occlusion = np.ones_like(metallic)
        for here, texels in self.textured("metal_rough_texture"):
            roughness[here] *= texels[1]
            metallic[here] *= texels[2]
        for here, texels in self.textured("occlusion_texture"):
            occlusion[here] = texels[0]
        for here, texels in self.textured("emissive_texture"):
            glow[:, here] *= texels
        return glow, metallic, roughness, occlusion

    def leaning(self) -> Float32[np.ndarray, "3 k"]:
        """The directions of the normals."""
        normal: Float32[np.ndarray, "3 k"] = self.normal.copy()
        for here, texels in self.textured("normal_texture"):
            corners = self.corners[:, :, here]
            first, second = corners[1] - corners[0], corners[2] - corners[0]
            edges, uv_edges = (first[:3], second[:3]), (first[6:8], second[6:8])
            normal[:, here] = lean_normal(unit_vector(normal[:, here]), edges, uv_edges, texels)
        return normal

    def textured(self, name: str) -> Iterator[tuple[slice | Wholes, Float32[np.ndarray, "c h"]]]:
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
    return np.asarray(shares / (shares[0] + shares[1] + shares[2]), np.float32)
