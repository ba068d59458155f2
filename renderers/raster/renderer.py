"""The default renderer: a rasteriser in numpy that needs no GPU, no display and no system package.

Visibility is settled at 2 by 2 samples a pixel (spans), what lies there is shaded once (pixels, shade),
see-through faces are laid over, and samples are averaged in linear light.
See-through faces are cut-outs, which are there or not, and glass, which dims what lies behind. The n-th
nearest pieces of glass at each sample make a picture of their own, shaded like that of solid faces.
"""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int64, UInt8

from renderers.contracts import (
    Background,
    MeshError,
    MeshMaterial,
    MeshModel,
    Rig,
    Views,
    channel_count,
    check_view_size,
)
from renderers.images.color import compose_on_background
from renderers.raster.pixels import SAMPLES_PER_SIDE, corners_of, fragments_in_pixels, mean_of
from renderers.raster.scene import Fragments, RasterScene
from renderers.raster.shade import fragment_alpha, shade_fragments
from renderers.raster.spans import FaceSpans, draw_nearest, faces_of, project, span_samples, spans_of_faces

_SAMPLES_AT_ONCE = 210_000  # views are drawn together while they fit into the caches
_BALL = 1.001  # the model's ball, and a little for rounding
_CLEAR = 0.999
MOST_LAYERS = 64  # see-through faces at one sample; those further back are left out
MOST_FRAGMENTS = 20_000_000  # see-through fragments drawn at once
TOO_MANY_CLEAR_FACES = "too many transparent faces lie behind each other. Make some of them opaque."
Keys: TypeAlias = Int64[np.ndarray, "v s s"]
Numbers: TypeAlias = Int64[np.ndarray, " k"]


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
    _draw_cut_outs(scene, keys, cut)
    free, listed = (corners_of(keys) == 0).astype(np.float32), fragments_in_pixels(scene, keys)
    through, veil = _blend_glass(scene, keys, clear) if len(clear) else (np.ones_like(free), None)
    weight = mean_of(listed.shown * np.take(through, listed.pixel, axis=1))
    light, rest = shade_fragments(scene, listed.fragments)[:3] * weight, mean_of(free * through)
    sums = [np.bincount(listed.pixel, channel, len(rest)) for channel in light]
    pixels = compose_on_background(background, np.stack(sums, axis=1).astype(np.float32), rest, veil)
    return pixels.reshape(len(poses), size, size, channel_count(background))


def _draw_cut_outs(scene: RasterScene, keys: Keys, rows: FaceSpans) -> None:
    """Let faces with holes compete for the samples of `keys`, in place; holes leave no trace."""
    flat, side = keys.reshape(-1), keys.shape[1]
    cutoffs = np.array([material.alpha_cutoff for material in scene.model.materials], np.float32)
    for sample, key in span_samples(rows):
        nearer = np.flatnonzero(key > flat[sample])
        sample, key = sample[nearer], key[nearer]
        line, column = np.divmod(sample, side)
        view, row = np.divmod(line, side)
        at = Fragments(view, faces_of(key), column + 0.5, row + 0.5)
        there = fragment_alpha(scene, at) >= cutoffs[scene.model.material_of[at.face]]
        np.maximum.at(flat, sample[there], key[there])


def _blend_glass(
    scene: RasterScene, keys: Keys, rows: FaceSpans
) -> tuple[Float32[np.ndarray, "4 p"], Float32[np.ndarray, "p 3"]]:
    """How much light each sample of a pixel lets through from behind, and what glass adds to the pixel."""
    pixels = keys.size // SAMPLES_PER_SIDE**2
    through, light = np.ones((4, pixels), np.float32), np.zeros((4, 3, pixels), np.float32)
    for layer in _layers(keys, rows):
        listed = fragments_in_pixels(scene, layer)
        color = shade_fragments(scene, listed.fragments)
        opacity = np.clip(color[3], 0, 1)
        for corner in range(4):
            here = np.flatnonzero(listed.shown[corner])
            at, opaque = np.take(listed.pixel, here), np.take(opacity, here)
            left = np.take(through[corner], at)
            for channel in range(3):
                light[corner, channel][at] += np.take(color[channel], here) * left * opaque
            through[corner][at] = left * (1 - opaque)
    return through, mean_of(light).T


def _layers(keys: Keys, rows: FaceSpans) -> Iterator[Keys]:
    """The keys of the nearest see-through face at each sample, then of the next one, and so on."""
    sample, key = _in_front(keys, rows)
    for _ in range(MOST_LAYERS):
        if not len(sample):
            return
        nearest = np.zeros(keys.size, np.int64)
        np.maximum.at(nearest, sample, key)
        yield nearest.reshape(keys.shape)
        behind = np.flatnonzero(key < nearest[sample])
        sample, key = sample[behind], key[behind]


def _in_front(keys: Keys, rows: FaceSpans) -> tuple[Numbers, Numbers]:
    """(sample, key) of the see-through fragments that nothing solid hides."""
    flat, count = keys.reshape(-1), 0
    samples, fragment_keys = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for sample, key in span_samples(rows):
        nearer = np.flatnonzero(key > flat[sample])
        count += len(nearer)
        if count > MOST_FRAGMENTS:
            raise MeshError(TOO_MANY_CLEAR_FACES)
        samples.append(sample[nearer])
        fragment_keys.append(key[nearer])
    return np.concatenate(samples), np.concatenate(fragment_keys)


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
