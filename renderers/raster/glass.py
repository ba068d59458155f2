"""See-through faces: cut-outs, which are there or not, and glass, which dims what lies behind.

The n-th nearest pieces of glass at each sample make a picture of their own, shaded like that of solid faces.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float32, Int64

from renderers.contracts import MeshError
from renderers.raster.pixels import SAMPLES_PER_SIDE, fragments_in_pixels, mean_of
from renderers.raster.scene import Fragments, RasterScene
from renderers.raster.shade import fragment_alpha, shade_fragments
from renderers.raster.spans import FaceSpans, faces_of, span_samples

MOST_LAYERS = 64  # see-through faces at one sample; those further back are left out
MOST_FRAGMENTS = 20_000_000  # see-through fragments drawn at once
TOO_MANY_CLEAR_FACES = "too many transparent faces lie behind each other. Make some of them opaque."


def draw_cut_outs(scene: RasterScene, keys: Int64[np.ndarray, "v s s"], rows: FaceSpans) -> None:
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


def blend_glass(
    scene: RasterScene, keys: Int64[np.ndarray, "v s s"], rows: FaceSpans
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


def _layers(keys: Int64[np.ndarray, "v s s"], rows: FaceSpans) -> Iterator[Int64[np.ndarray, "v s s"]]:
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


def _in_front(
    keys: Int64[np.ndarray, "v s s"], rows: FaceSpans
) -> tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " k"]]:
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
