"""See-through faces: the twin of `renderers.glass`."""

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from renderers.cuda.batch import Batch
from renderers.cuda.samples import Rows, fragments, fragments_at
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
) -> tuple[Float32[Tensor, " S"], Float32[Tensor, "p 3"]]:
    """How much light each sample lets through from behind, and what glass itself adds to each pixel."""
    sample, key = _in_front(batch, keys, rows)
    color = _shaded_once(batch, sample, key)
    through = torch.ones(len(keys), device=batch.device)
    light = torch.zeros((len(keys), 3), device=batch.device)
    place = torch.arange(len(sample), device=batch.device)
    begin = torch.ones_like(sample, dtype=torch.bool)
    begin[1:] = sample[1:] != sample[:-1]
    nth = place - torch.cummax(torch.where(begin, place, 0), 0).values if len(sample) else place
    for layer in range(min(int(nth.max()) + 1 if len(nth) else 0, MOST_LAYERS)):
        here = torch.nonzero(nth == layer)[:, 0]
        at, opacity = sample[here], color[3, here].clamp(0, 1)
        light[at] += (color[:3, here] * through[at] * opacity).T
        through[at] *= 1 - opacity
    size = batch.side // 2
    by_pixel = light.reshape(batch.views, size, 2, size, 2, 3)
    first, second = by_pixel[:, :, 0], by_pixel[:, :, 1]
    sums = first[:, :, :, 0] + first[:, :, :, 1] + second[:, :, :, 0] + second[:, :, :, 1]
    return through, (sums * 0.25).reshape(-1, 3)


def _in_front(
    batch: Batch, keys: Int64[Tensor, " S"], rows: Rows
) -> tuple[Int64[Tensor, " k"], Int64[Tensor, " k"]]:
    """(sample, key) of the see-through fragments that nothing solid hides; in a sample, the nearest first."""
    samples, found, count = [keys[:0]], [keys[:0]], 0
    for sample, key in fragments(rows):
        nearer = key > keys[sample]
        samples.append(sample[nearer])
        found.append(key[nearer])
        count += len(found[-1])
        if count > MOST_FRAGMENTS * batch.views:
            raise MeshError(TOO_MANY_CLEAR)
    sample, key = torch.cat(samples), torch.cat(found)
    nearest_first = torch.argsort(key, descending=True, stable=True)
    order = nearest_first[torch.argsort(sample[nearest_first], stable=True)]
    return sample[order], key[order]


def _shaded_once(
    batch: Batch, sample: Int64[Tensor, " k"], key: Int64[Tensor, " k"]
) -> Float32[Tensor, "4 k"]:
    """The colour of each fragment, worked out once for each face in a pixel."""
    at, size = _at_samples(batch, sample, key), batch.side // 2
    line, column = sample // batch.side, sample % batch.side
    view, row = line // batch.side, line % batch.side
    pixel = (view * size + row // 2) * size + column // 2
    groups, of_group = torch.unique(pixel * len(batch.pair_face) + at.pair, return_inverse=True)
    sums = torch.zeros((3, len(groups)), dtype=torch.float64, device=batch.device)
    inside = torch.stack([torch.ones_like(at.x), at.x - column // 2 * 2, at.y - row // 2 * 2])
    count, x, y = sums.index_add_(1, of_group, inside)
    pixels, pairs = groups // len(batch.pair_face), groups % len(batch.pair_face)
    return shade(batch, fragments_at(batch, pixels, pairs, x / count, y / count))[:, of_group]


def _at_samples(batch: Batch, sample: Int64[Tensor, " k"], key: Int64[Tensor, " k"]) -> Fragments:
    line, column = sample // batch.side, sample % batch.side
    row = line % batch.side
    return Fragments((key & FACE_MASK) - 1, column.double() + 0.5, row.double() + 0.5)
