"""Groups of observations: each step takes some items, and of each some views and some captions."""

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
    view_items: Int64[Tensor, " b"]
    tokens: Int64[Tensor, "c t"]
    text_items: Int64[Tensor, " c"]


def batches(groups: Groups, train: Train) -> Iterator[Batch]:
    """Endless passes over the items, reshuffled each time, everything decided by the seed."""
    rng = np.random.default_rng(train.seed)
    while True:
        order = rng.permutation(len(groups.pixels))
        for start in range(0, len(order) - train.items + 1, train.items):
            yield _batch(groups, order[start : start + train.items], train, rng)


def _batch(groups: Groups, items: Int64[np.ndarray, " i"], train: Train, rng: np.random.Generator) -> Batch:
    views = [_some(np.arange(groups.pixels.shape[1]), train.views, rng) for _ in items]
    rows = [_some(np.arange(*groups.captions[item]), train.captions, rng) for item in items]
    view_items, text_items = (np.repeat(items, [len(each) for each in found]) for found in (views, rows))
    pixels = groups.pixels[view_items, np.concatenate(views)]
    return Batch(
        torch.from_numpy(_shift(pixels, train.shift, rng)),
        torch.from_numpy(view_items),
        torch.from_numpy(groups.tokens[np.concatenate(rows)]),
        torch.from_numpy(text_items),
    )


def _some(places: Int64[np.ndarray, " n"], most: int, rng: np.random.Generator) -> Int64[np.ndarray, " some"]:
    """At most so many of them, each once, in random order; 0: all."""
    return rng.permutation(places)[: most or None]


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
