"""See-through faces: cut-outs, which are there or not, and glass, which dims what lies behind."""

import numpy as np
from jaxtyping import Float32, Int64

from renderers.errors import MeshError
from renderers.pixels import PIXEL, fragments_at
from renderers.raster import Rows, faces_of, fragments
from renderers.scene import Fragments, Scene
from renderers.shade import alpha, shade

MOST_LAYERS = 64  # see-through faces at one sample; those further back are left out
MOST_FRAGMENTS = 20_000_000  # see-through fragments drawn at once
TOO_MANY_CLEAR = "too many transparent faces lie behind each other. Make some of them opaque."


def draw_cut_outs(scene: Scene, keys: Int64[np.ndarray, "v s s"], rows: Rows) -> None:
    """Let faces with holes compete for the samples of `keys`, in place; holes leave no trace."""
    flat, side = keys.reshape(-1), keys.shape[1]
    cutoffs = np.array([material.alpha_cutoff for material in scene.model.materials], np.float32)
    for sample, key in fragments(rows):
        nearer = np.flatnonzero(key > flat[sample])
        sample, key = sample[nearer], key[nearer]
        at = _at_samples(sample, key, side)
        there = alpha(scene, at) >= cutoffs[scene.model.material_of[at.face]]
        np.maximum.at(flat, sample[there], key[there])


def glass(
    scene: Scene, keys: Int64[np.ndarray, "v s s"], rows: Rows
) -> tuple[Float32[np.ndarray, "v s s"], Float32[np.ndarray, "p 3"]]:
    """How much light each sample lets through from behind, and what glass itself adds to each pixel."""
    sample, key = _in_front(keys, rows)
    color = _shaded_once(scene, sample, key, keys.shape)
    through, light = np.ones(keys.size, np.float32), np.zeros((keys.size, 3), np.float32)
    begin = np.r_[True, sample[1:] != sample[:-1]][: len(sample)]
    nth = np.arange(len(sample)) - np.maximum.accumulate(np.where(begin, np.arange(len(sample)), 0))
    for layer in range(min(int(nth.max(initial=-1)) + 1, MOST_LAYERS)):
        here = np.flatnonzero(nth == layer)
        at, opacity = sample[here], np.clip(color[3, here], 0, 1)
        light[at] += (color[:3, here] * through[at] * opacity).T
        through[at] *= 1 - opacity
    by_pixel = light.reshape(len(keys), keys.shape[1] // PIXEL, PIXEL, keys.shape[2] // PIXEL, PIXEL, 3)
    return through.reshape(keys.shape), by_pixel.mean(axis=(2, 4)).reshape(-1, 3)


def _in_front(
    keys: Int64[np.ndarray, "v s s"], rows: Rows
) -> tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " k"]]:
    """(sample, key) of the see-through fragments that nothing solid hides; in a sample, the nearest first."""
    flat, count = keys.reshape(-1), 0
    samples, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for sample, key in fragments(rows):
        nearer = np.flatnonzero(key > flat[sample])
        count += len(nearer)
        if count > MOST_FRAGMENTS:
            raise MeshError(TOO_MANY_CLEAR)
        samples.append(sample[nearer])
        found.append(key[nearer])
    sample, key = np.concatenate(samples), np.concatenate(found)
    order = np.lexsort((-key, sample))
    return sample[order], key[order]


def _shaded_once(
    scene: Scene, sample: Int64[np.ndarray, " k"], key: Int64[np.ndarray, " k"], shape: tuple[int, ...]
) -> Float32[np.ndarray, "4 k"]:
    """The colour of each fragment, worked out once for each face in a pixel."""
    at = _at_samples(sample, key, shape[1])
    column, row = (at.x // PIXEL).astype(np.int64), (at.y // PIXEL).astype(np.int64)
    pixel = (at.view * (shape[1] // PIXEL) + row) * (shape[2] // PIXEL) + column
    pairs = pixel * len(scene.model.faces) + at.face
    _, first, of_group = np.unique(pairs, return_index=True, return_inverse=True)
    count = np.bincount(of_group)
    x = np.bincount(of_group, at.x - PIXEL * column) / count
    y = np.bincount(of_group, at.y - PIXEL * row) / count
    return np.take(shade(scene, fragments_at(pixel[first], at.face[first], x, y, shape)), of_group, axis=1)


def _at_samples(sample: Int64[np.ndarray, " k"], key: Int64[np.ndarray, " k"], side: int) -> Fragments:
    line, column = np.divmod(sample, side)
    view, row = np.divmod(line, side)
    return Fragments(view, faces_of(key), column + 0.5, row + 0.5)
