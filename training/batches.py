"""Groups of observations: each step takes some items, some views of each and one caption of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from training.recipe import Train


@dataclass(frozen=True)
class Groups:
    """Items in memory: their views, and their captions as padded token rows."""

    pixels: UInt8[np.ndarray, "i v h w 3"]
    tokens: Int64[np.ndarray, "c t"]  # all captions of all items
    captions: Sequence[tuple[int, int]]  # each item's rows of `tokens`: first, one past the last


@dataclass(frozen=True)
class Batch:
    """One step's observations, and the item that each belongs to."""

    pixels: UInt8[Tensor, "b h w 3"]
    tokens: Int64[Tensor, "c t"]
    views: int  # views an item: rows of `pixels` come in groups of this many
    items: Int64[Tensor, " i"]


def batches(groups: Groups, train: Train) -> Iterator[Batch]:
    """Endless passes over the items, reshuffled each time, everything decided by the seed."""
    rng = np.random.default_rng(train.seed)
    while True:
        order = rng.permutation(len(groups.pixels))
        for start in range(0, len(order) - train.items + 1, train.items):
            yield _batch(groups, order[start : start + train.items], train, rng)


def _batch(groups: Groups, items: Int64[np.ndarray, " i"], train: Train, rng: np.random.Generator) -> Batch:
    views = np.stack([rng.permutation(groups.pixels.shape[1])[: train.views] for _ in items])
    seen = groups.pixels[items[:, None], views].reshape(-1, *groups.pixels.shape[2:])
    rows = np.array([rng.integers(*groups.captions[item]) for item in items])
    tokens = groups.tokens[rows]
    longest = int((tokens != 0).sum(1).max())
    return Batch(
        torch.from_numpy(_shift(seen, train.shift, rng)),
        torch.from_numpy(tokens[:, :longest]),
        train.views,
        torch.from_numpy(items),
    )


def _shift(
    pictures: UInt8[np.ndarray, "b h w 3"], most: int, rng: np.random.Generator
) -> UInt8[np.ndarray, "b h w 3"]:
    """Each picture moved a little, its border repeated. Never mirrored: captions say left and right."""
    if not most:
        return pictures
    size = pictures.shape[1]
    padded = np.pad(pictures, ((0, 0), (most, most), (most, most), (0, 0)), mode="edge")
    corners = rng.integers(0, 2 * most + 1, (len(pictures), 2))
    return np.stack([p[y : y + size, x : x + size] for p, (y, x) in zip(padded, corners, strict=True)])
