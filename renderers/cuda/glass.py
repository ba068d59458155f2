"""See-through faces: the twin of `renderers.glass`."""

from collections.abc import Iterator

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from renderers.cuda.batch import Batch
from renderers.cuda.samples import Rows, fragments, mean_of, seen_in
from renderers.cuda.surface import Fragments, alpha, shade
from renderers.errors import MeshError
from renderers.glass import MOST_FRAGMENTS, MOST_LAYERS, TOO_MANY_CLEAR
from renderers.kernels.packed import CUTOFF
from renderers.raster import FACE_MASK


def draw_cut_outs(batch: Batch, keys: Int64[Tensor, " S"], rows: Rows) -> None:
    """Let faces with holes compete for the samples of `keys`, in place; holes leave no trace."""
    for sample, key in fragments(rows):
        nearer = key > keys[sample]
        sample, key = sample[nearer], key[nearer]
        at = _at_samples(batch, sample, key)
        cutoff = batch.materials[batch.material_of[batch.pair_face[at.pair]], CUTOFF]
        there = alpha(batch, at) >= cutoff
        keys.scatter_reduce_(0, sample[there], key[there], "amax")


def glass(
    batch: Batch, keys: Int64[Tensor, " S"], rows: Rows
) -> tuple[Float32[Tensor, "4 p"], Float32[Tensor, "p 3"]]:
    """How much light each sample of a pixel lets through from behind, and what glass adds to the pixel."""
    pixels = len(keys) // 4
    through = torch.ones((4, pixels), device=batch.device)
    light = torch.zeros((4, pixels, 3), device=batch.device)
    for layer in _layers(batch, keys, rows):
        seen = seen_in(batch, layer)
        color = shade(batch, seen.fragments)
        opacity = color[3].clamp(0, 1)
        for corner in range(4):
            here = torch.nonzero(seen.shown[corner])[:, 0]
            at, opaque = seen.pixel[here], opacity[here]
            light[corner, at] += (color[:3, here] * through[corner, at] * opaque).T
            through[corner, at] *= 1 - opaque
    return through, mean_of(light)


def _layers(batch: Batch, keys: Int64[Tensor, " S"], rows: Rows) -> Iterator[Int64[Tensor, " S"]]:
    """The keys of the nearest see-through face at each sample, then of the next one, and so on."""
    sample, key = _in_front(batch, keys, rows)
    for _ in range(MOST_LAYERS):
        if not len(sample):
            return
        nearest = torch.zeros_like(keys).scatter_reduce_(0, sample, key, "amax")
        yield nearest
        behind = key < nearest[sample]
        sample, key = sample[behind], key[behind]


def _in_front(
    batch: Batch, keys: Int64[Tensor, " S"], rows: Rows
) -> tuple[Int64[Tensor, " k"], Int64[Tensor, " k"]]:
    """(sample, key) of the see-through fragments that nothing solid hides."""
    samples, found, count = [keys[:0]], [keys[:0]], 0
    for sample, key in fragments(rows):
        nearer = key > keys[sample]
        samples.append(sample[nearer])
        found.append(key[nearer])
        count += len(found[-1])
        if count > MOST_FRAGMENTS * batch.views:
            raise MeshError(TOO_MANY_CLEAR)
    return torch.cat(samples), torch.cat(found)


def _at_samples(batch: Batch, sample: Int64[Tensor, " k"], key: Int64[Tensor, " k"]) -> Fragments:
    line, column = sample // batch.side, sample % batch.side
    row = line % batch.side
    return Fragments((key & FACE_MASK) - 1, column.double() + 0.5, row.double() + 0.5)
