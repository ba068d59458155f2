"""The default renderer: a rasteriser in numpy that needs no GPU, no display and no system package.

Visibility is settled at 2 by 2 samples a pixel (spans), what lies there is shaded once (pixels, shade),
see-through faces are laid over (glass), and samples are averaged in linear light.
"""

import numpy as np
from jaxtyping import Float64, Int64, UInt8

from renderers.contracts import (
    Background,
    MeshMaterial,
    MeshModel,
    Rig,
    Views,
    channel_count,
    check_view_size,
)
from renderers.images.color import compose_on_background
from renderers.raster.glass import blend_glass, draw_cut_outs
from renderers.raster.pixels import SAMPLES_PER_SIDE, corners_of, fragments_in_pixels, mean_of
from renderers.raster.scene import RasterScene
from renderers.raster.shade import shade_fragments
from renderers.raster.spans import draw_nearest, project, spans_of_faces

_SAMPLES_AT_ONCE = 210_000  # views are drawn together while they fit into the caches
_BALL = 1.001  # the model's ball, and a little for rounding
_CLEAR = 0.999


class SoftwareRenderer:
    """Draws on the CPU with numpy alone."""

    name = "software"
    version = "2"

    def render(self, model: MeshModel, rig: Rig, size: int = 224, background: Background = "white") -> Views:
        """One square sRGB picture for each pose of the rig."""
        check_view_size(size)
        together = max(1, _SAMPLES_AT_ONCE // (size * SAMPLES_PER_SIDE) ** 2)
        groups = [rig.poses[start : start + together] for start in range(0, len(rig), together)]
        return np.concatenate([_draw(model, poses, rig, size, background) for poses in groups])


def _draw(
    model: MeshModel, poses: Float64[np.ndarray, "v 4 4"], rig: Rig, size: int, background: Background
) -> UInt8[np.ndarray, "v h w c"]:
    side, depths = size * SAMPLES_PER_SIDE, depth_range(rig)
    scene = RasterScene(model, poses, project(model.vertices, poses, rig.fov_degrees, side), SAMPLES_PER_SIDE)
    solid, cut, clear = (
        spans_of_faces(scene.screen, model.faces, faces, side, depths) for faces in by_opacity(model)
    )
    keys = np.zeros((len(poses), side, side), np.int64)
    draw_nearest(keys.reshape(-1), solid)
    draw_cut_outs(scene, keys, cut)
    free, listed = (corners_of(keys) == 0).astype(np.float32), fragments_in_pixels(scene, keys)
    through, veil = blend_glass(scene, keys, clear) if len(clear) else (np.ones_like(free), None)
    weight = mean_of(listed.shown * np.take(through, listed.pixel, axis=1))
    light, rest = shade_fragments(scene, listed.fragments)[:3] * weight, mean_of(free * through)
    sums = [np.bincount(listed.pixel, channel, len(rest)) for channel in light]
    pixels = compose_on_background(background, np.stack(sums, axis=1).astype(np.float32), rest, veil)
    return pixels.reshape(len(poses), size, size, channel_count(background))


def depth_range(rig: Rig) -> tuple[float, float]:
    """The greatest and the least 1/distance that a point of the unit ball can have in any view."""
    distances = np.linalg.norm(rig.poses[:, :3, 3], axis=1)
    return 1 / (float(distances.min()) - _BALL), 1 / (float(distances.max()) + _BALL)


def by_opacity(
    model: MeshModel,
) -> tuple[Int64[np.ndarray, " a"], Int64[np.ndarray, " b"], Int64[np.ndarray, " c"]]:
    """The faces that are solid, those with holes, and those that let light through."""
    kinds = np.array([opacity_of(model, material) for material in model.materials])[model.material_of]
    solid, cut, clear = (np.flatnonzero(kinds == kind) for kind in (0, 1, 2))
    return solid, cut, clear


def opacity_of(model: MeshModel, material: MeshMaterial) -> int:
    """0 solid, 1 with holes, 2 clear; many files say BLEND and mean solid."""
    if material.alpha_mode != "BLEND":
        return int(material.alpha_mode == "MASK")
    texture = material.base_texture
    least = material.base[3] * float(model.colors[:, 3].min())
    least *= 1.0 if texture is None else float(texture.texels[:, 3].min())
    return 2 if least < _CLEAR else 0
