"""Pairs -> samples -> pixels: the twin of `renderers.raster` and `renderers.pixels`."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float32, Float64, Int64
from torch import Tensor

from renderers.cuda.batch import Batch, chosen
from renderers.cuda.surface import Fragments
from renderers.errors import MeshError
from renderers.pixels import ALIKE_COSINE, ALIKE_DEPTH, ALIKE_UV
from renderers.raster import DEPTH_BITS, FACE_MASK, MOST_FRAGMENTS_PER_VIEW, TOO_MANY_LARGE

_AT_ONCE = 20_000_000


@dataclass(frozen=True, eq=False)
class Rows:
    """Spans of samples; their keys name pairs, as the numpy twin's name faces."""

    begin: Int64[Tensor, " r"]
    count: Int64[Tensor, " r"]
    key: Int64[Tensor, " r"]
    step: Int64[Tensor, " r"]


def rows_of(batch: Batch, opacity: int) -> Rows:
    """Every row of the pairs of this opacity that covers a sample."""
    pairs = chosen(batch, opacity)
    corners = batch.screen[batch.pair_corners[pairs]]
    order = torch.argsort(corners[..., 1], dim=1, stable=True)
    corners = torch.take_along_dim(corners, order[..., None], dim=1)
    first = _first_sample(corners[:, 0, 1], batch.side)
    count = _first_sample(corners[:, 2, 1], batch.side) - first
    which = torch.repeat_interleave(count)
    row = torch.arange(len(which), device=batch.device) - (torch.cumsum(count, 0) - count - first)[which]
    return _spans(batch, corners, which, row, pairs)


def _first_sample(position: Float64[Tensor, " k"], side: int) -> Int64[Tensor, " k"]:
    return torch.clamp(torch.ceil(position - 0.5), 0, side).long()


def _spans(
    batch: Batch,
    corners: Float64[Tensor, "t 3 3"],
    which: Int64[Tensor, " r"],
    row: Int64[Tensor, " r"],
    pairs: Int64[Tensor, " t"],
) -> Rows:
    y, (top, middle, bottom) = row.double() + 0.5, corners.unbind(1)
    lower = y >= middle[which, 1]
    long_x, long_depth = _on_edge(top, bottom, which, y)
    short_x, short_depth = _on_edge(
        torch.where(lower[:, None], middle[which], top[which]),
        torch.where(lower[:, None], bottom[which], middle[which]),
        torch.arange(len(which), device=batch.device),
        y,
    )
    swap = long_x > short_x
    left_x, right_x = torch.where(swap, short_x, long_x), torch.where(swap, long_x, short_x)
    left, right = torch.where(swap, short_depth, long_depth), torch.where(swap, long_depth, short_depth)
    begin, end = _first_sample(left_x, batch.side), _first_sample(right_x, batch.side)
    near, far = batch.depths
    scale, width, count = (1 << DEPTH_BITS) / (near - far), right_x - left_x, end - begin
    rise = (right - left) * scale
    depth = (left - far) * scale + (begin + 0.5 - left_x) / width * rise
    step = torch.where(count > 1, rise / width, 0)
    some = torch.nonzero(count > 0)[:, 0]
    view = batch.pair_view[pairs][which]
    _check(view[some], count[some], batch.views)
    key = (torch.round(depth[some]).long() << 32) | (pairs[which[some]] + 1)
    start = ((view * batch.side + row) * batch.side + begin)[some]
    return Rows(start, count[some], key, torch.round(step[some]).long() << 32)


def _check(view: Int64[Tensor, " r"], count: Int64[Tensor, " r"], views: int) -> None:
    total = torch.zeros(views, dtype=torch.int64, device=view.device).index_add_(0, view, count)
    if int(total.max()) > MOST_FRAGMENTS_PER_VIEW:
        raise MeshError(TOO_MANY_LARGE)


def _on_edge(
    upper: Float64[Tensor, "e 3"],
    lower: Float64[Tensor, "e 3"],
    which: Int64[Tensor, " r"],
    y: Float64[Tensor, " r"],
) -> tuple[Float64[Tensor, " r"], Float64[Tensor, " r"]]:
    """x and depth of each row on its edge."""
    fall = lower[:, 1] - upper[:, 1]
    slopes = (lower[:, ::2] - upper[:, ::2]) / torch.where(fall > 1e-12, fall, 1)[:, None]
    below = y - upper[which, 1]
    return upper[which, 0] + below * slopes[which, 0], upper[which, 2] + below * slopes[which, 1]


def fragments(rows: Rows) -> Iterator[tuple[Int64[Tensor, " k"], Int64[Tensor, " k"]]]:
    """Pieces of (sample, key) for every sample of every row."""
    ends, start = torch.cumsum(rows.count, 0), 0
    while start < len(ends):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(torch.searchsorted(ends, done + _AT_ONCE, right=True)))
        which = torch.repeat_interleave(rows.count[start:stop]) + start
        place = torch.arange(len(which), device=ends.device) + done - (ends - rows.count)[which]
        yield rows.begin[which] + place, rows.key[which] + rows.step[which] * place
        start = stop


def draw_nearest(keys: Int64[Tensor, " S"], rows: Rows) -> None:
    """Let these rows compete for the samples of `keys`, in place."""
    for sample, key in fragments(rows):
        keys.scatter_reduce_(0, sample, key, "amax")


@dataclass(frozen=True, eq=False)
class Seen:
    """Fragments, the pixel each belongs to (over all views) and which of its samples show it."""

    fragments: Fragments
    pixel: Int64[Tensor, " k"]
    shown: Bool[Tensor, "4 k"]


def seen_in(batch: Batch, keys: Int64[Tensor, " S"]) -> Seen:
    """The fragments of every pixel."""
    four = corners_of(keys, batch)
    pairs = (four & FACE_MASK) - 1
    whole = (pairs == pairs[0]).all(0)
    inside, edge = torch.nonzero(whole & (pairs[0] >= 0))[:, 0], torch.nonzero(~whole)[:, 0]
    leading = _led(batch, pairs[:, edge], four[:, edge] >> 32)
    pixels, found = [inside], [pairs[0, inside]]
    shown = [torch.ones((4, len(inside)), dtype=torch.bool, device=batch.device)]
    for corner in range(4):
        same = leading == leading[corner]
        fresh = ~same[:corner].any(0) if corner else torch.ones_like(same[0])
        first = torch.nonzero(fresh & (leading[corner] >= 0))[:, 0]
        pixels.append(edge[first])
        found.append(leading[corner, first])
        shown.append(same[:, first])
    return _seen(batch, torch.cat(pixels), torch.cat(found), torch.cat(shown, dim=1))


def _led(batch: Batch, pairs: Int64[Tensor, "4 e"], depths: Int64[Tensor, "4 e"]) -> Int64[Tensor, "4 e"]:
    """The pairs of pixels, each that is like an earlier one replaced by it."""
    face = batch.pair_face[pairs]
    material, normal = batch.material_of[face], batch.normals[face, 0].permute(2, 0, 1)
    u, v = batch.uv[0, batch.faces[face, 0]].permute(2, 0, 1)
    leading, leads = pairs.clone(), pairs >= 0
    for corner in range(1, 4):
        followed = torch.zeros_like(leads[0])
        for leader in range(corner - 1, -1, -1):
            x, y, z = normal[:, leader] * normal[:, corner]
            alike = leads[leader] & (torch.abs(x + y + z) > float(ALIKE_COSINE)) & (pairs[corner] >= 0)
            alike &= (material[leader] == material[corner]) & ~batch.colored[material[corner]]
            alike &= torch.abs(depths[leader] - depths[corner]) < ALIKE_DEPTH
            alike &= torch.abs(u[leader] - u[corner]) < float(ALIKE_UV)
            alike &= torch.abs(v[leader] - v[corner]) < float(ALIKE_UV)
            leading[corner] = torch.where(alike, pairs[leader], leading[corner])
            followed |= alike
        leads[corner] &= ~followed
    return leading


def _seen(
    batch: Batch, pixel: Int64[Tensor, " k"], pair: Int64[Tensor, " k"], shown: Bool[Tensor, "4 k"]
) -> Seen:
    """Each shaded in the middle of its samples."""
    size, count = batch.side // 2, shown.sum(0).double()
    row, column = pixel // size % size, pixel % size
    x, y = 0.5 + (shown[1].double() + shown[3]) / count, 0.5 + (shown[2].double() + shown[3]) / count
    return Seen(Fragments(pair, x + 2 * column, y + 2 * row), pixel, shown)


def corners_of(samples: Tensor, batch: Batch) -> Tensor:
    """The samples of each pixel, one row for each of its corners."""
    square = samples.reshape(batch.views, batch.side, batch.side)
    return torch.stack([square[:, row::2, column::2].reshape(-1) for row in (0, 1) for column in (0, 1)])


def mean_of(four: Float32[Tensor, "4 ..."]) -> Float32[Tensor, "..."]:
    """The mean over the corners of a pixel, in this order."""
    mean: Tensor = (four[0] + four[1] + four[2] + four[3]) * 0.25
    return mean
