"""Batches of a training: each step takes some items, and of each some views, augmented, and some captions.

Or it takes pairs of a view and a caption: several of one item may meet in a step, a pass sees each pair once.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64, UInt8
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from multifold.errors import MultifoldError
from training.data.points import ItemPoints, some_groups, spun_points
from training.data.views import ItemViews, LazyViews
from training.distributed import SINGLE_PROCESS, ProcessRank
from training.recipes.schema import AugmentSection, TrainSection


def augmentation_maps(
    augment: AugmentSection, count: int, rng: np.random.Generator
) -> Float32[Tensor, "b 2 3"] | None:
    """For each picture, the coordinates (from −1 to 1) that its pixels are taken from; none: as it is."""
    if augment == AugmentSection(spin=augment.spin):
        return None
    angle = np.deg2rad(rng.uniform(-augment.turn, augment.turn, count))
    across = np.where(augment.mirror & (rng.random(count) < 0.5), -1, 1)
    down = np.where(augment.upside_down & (rng.random(count) < 0.5), -1, 1)
    room = 1 - 1 / augment.zoom
    offsets = rng.uniform(-room, room, (2, count))
    cos, sin = np.cos(angle) / augment.zoom, np.sin(angle) / augment.zoom
    rows = np.array([[across * cos, -down * sin, offsets[0]], [across * sin, down * cos, offsets[1]]])
    return torch.from_numpy(rows.transpose(2, 0, 1).astype(np.float32))


def apply_maps(pixels: UInt8[Tensor, "b h w 3"], where: Float32[Tensor, "b 2 3"]) -> UInt8[Tensor, "b h w 3"]:
    planes = pixels.permute(0, 3, 1, 2).float()
    grid = affine_grid(where, list(planes.shape), align_corners=False)
    moved = grid_sample(planes, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return moved.permute(0, 2, 3, 1).add(0.5).clamp(0, 255).to(torch.uint8).contiguous()


@dataclass(frozen=True)
class TrainingItems:
    """Items in memory: their views, and their captions as padded token rows."""

    pixels: ItemViews | LazyViews | Float32[np.ndarray, "i v n"]  # features: of a tower that learns nothing
    tokens: Int64[np.ndarray, "c t"] | Float32[np.ndarray, "c n"]  # all captions of all items; or features
    captions: Sequence[tuple[int, int]]  # each item's rows of `tokens`: first, one past the last
    ids: Sequence[str] = ()  # what the items are called, for messages
    places: Int64[np.ndarray, " p"] | None = None  # items as often as a pass takes them; none: each once
    rivals: Mapping[int, Sequence[int]] = field(default_factory=dict)  # items that are mistaken for others
    judged: Mapping[int, Sequence[int]] = field(default_factory=dict)  # rows of `tokens` that people judged
    cut: int = 0  # captions that are longer than the text tower reads
    points: ItemPoints | None = None  # groups of each item's points, for a point tower
    directions: int = 0  # triples of a point's columns that turn with the item; the rest is colour

    def fingerprint(self) -> str:
        """A digest of items and captions: a run continues with the data that it began with."""
        digest = hashlib.sha256(json.dumps([list(self.ids), list(self.captions)]).encode())
        digest.update(str(self.pixels.shape).encode())
        digest.update(np.ascontiguousarray(self.tokens).tobytes())
        if self.points is not None:
            digest.update(str(self.points.shape).encode())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class TrainingBatch:
    """One step's observations, and the item that each belongs to.

    Of pairs, also which pair: views and captions become one by pairs, not by items.
    Where several ranks share a batch, each holds pixels and tokens of its share, and the items of all.
    """

    pixels: UInt8[Tensor, "b h w 3"] | Float32[Tensor, "b n"]
    view_items: Int64[Tensor, " views"]
    tokens: Int64[Tensor, "c t"] | Float32[Tensor, "c n"]
    text_items: Int64[Tensor, " texts"]
    places: Float32[Tensor, "b 2 3"] | None = None  # how the views are still to be moved
    points: Float32[Tensor, "i g k columns"] | None = None  # one observation of each item
    point_items: Int64[Tensor, " i"] | None = None
    view_pairs: Int64[Tensor, " views"] | None = None
    text_pairs: Int64[Tensor, " texts"] | None = None

    def on(self, device: torch.device) -> "TrainingBatch":
        """The batch on a device, its views augmented there."""
        pixels = self.pixels.to(device)
        if self.places is not None:
            pixels = apply_maps(pixels, self.places.to(device))
        tensors: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, tensor in tensors.items():
            tensors[name] = None if tensor is None else tensor.to(device)
        return TrainingBatch(**tensors | {"pixels": pixels, "places": None})


class BatchStream(Iterator[TrainingBatch]):
    """Endless passes over the items, or over their pairs, reshuffled each time, determined by the seed."""

    def __init__(
        self, groups: TrainingItems, train: TrainSection, ranks: ProcessRank = SINGLE_PROCESS
    ) -> None:
        self.groups, self.train, self.ranks = groups, train, ranks
        self.rng = np.random.default_rng(train.seed)
        self.order = np.empty(0, np.int64)  # of this pass
        self.at = 0  # how much of it has been seen
        captions = [end - first for first, end in groups.captions]
        self.last_pairs = np.cumsum(count_pairs(groups.pixels.shape[1], captions, train))
        self.count = int(self.last_pairs[-1]) if train.pairs else len(groups.captions)
        if train.items > self.count:
            drawn = "pairs" if train.pairs else "items"
            needs = f"a step takes {train.items} {drawn}, and there are {self.count}"
            raise MultifoldError(f"{needs}; give --set train.items={self.count}")

    def __next__(self) -> TrainingBatch:
        if self.at + self.train.items > len(self.order):
            places = self.groups.places
            self.order = self.rng.permutation(self.count if places is None else places)
            self.at = 0
        self.at += self.train.items
        items = self.order[self.at - self.train.items : self.at]
        if self.train.pairs:
            return self._pairs(items)
        if self.groups.places is not None:
            items = add_rivals(np.unique(items), self.groups.rivals, self.train.items, self.rng)
        views = [self._views() for _ in items]
        rows = [self._captions(int(item)) for item in items]
        return self._batch(items, views, rows)

    def state(self) -> dict[str, Any]:
        rng = json.dumps(self.rng.bit_generator.state)
        return {"rng": rng, "order": torch.from_numpy(self.order), "at": self.at}

    def restore(self, state: dict[str, Any]) -> None:
        self.rng.bit_generator.state = json.loads(state["rng"])
        self.order = state["order"].numpy()
        self.at = state["at"]

    def _pairs(self, pairs: Int64[np.ndarray, " p"]) -> TrainingBatch:
        """A step of these pairs, numbered through all items."""
        items = np.searchsorted(self.last_pairs, pairs, side="right")
        views, rows = [], []
        left = self.last_pairs[items] - pairs - 1  # after it, of the same item
        for item, place in zip(items.tolist(), left.tolist(), strict=True):
            first, end = self.groups.captions[item]
            view, caption = divmod(place, end - first if self.train.captions == 1 else 1)
            views.append(np.array([view]) if self.train.views == 1 else self._views())
            rows.append(np.array([first + caption]) if self.train.captions == 1 else self._captions(item))
        numbers = np.arange(len(items))
        of_views, of_texts = (torch.from_numpy(_owners(numbers, each)) for each in (views, rows))
        return replace(self._batch(items, views, rows), view_pairs=of_views, text_pairs=of_texts)

    def _batch(
        self,
        items: Int64[np.ndarray, " i"],
        views: Sequence[Int64[np.ndarray, " _"]],
        rows: Sequence[Int64[np.ndarray, " _"]],
    ) -> TrainingBatch:
        """These views and rows of tokens of each item."""
        groups, train, rng = self.groups, self.train, self.rng
        view_items, text_items = _owners(items, views), _owners(items, rows)
        view_share, text_share = self.ranks.share(len(view_items)), self.ranks.share(len(text_items))
        corners = rng.integers(0, 2 * train.shift + 1, (len(view_items), 2)) if train.shift else None
        maps = augmentation_maps(train.augment, len(view_items), rng)
        pixels = groups.pixels[view_items[view_share], np.concatenate(views)[view_share]]
        if corners is not None:
            pixels = _shift(pixels, train.shift, corners[view_share])
        tokens = groups.tokens[np.concatenate(rows)[text_share]]
        seen, seen_items, read, read_items = map(torch.from_numpy, (pixels, view_items, tokens, text_items))
        maps = None if maps is None else maps[view_share]
        batch = TrainingBatch(seen, seen_items, read, read_items, maps)
        if groups.points is None:
            return batch
        taken = some_groups(groups.points[items], train.groups, rng)
        sampled = spun_points(taken, groups.directions, train.augment.spin, rng)
        return replace(batch, points=torch.from_numpy(sampled), point_items=torch.from_numpy(items))

    def _views(self) -> Int64[np.ndarray, " some"]:
        return self._some(np.arange(self.groups.pixels.shape[1]), self.train.views)

    def _captions(self, item: int) -> Int64[np.ndarray, " _"]:
        rows = np.arange(*self.groups.captions[item])
        judged = self.groups.judged.get(item)
        if judged is None:
            return self._some(rows, self.train.captions)
        return np.concatenate([judged, self.rng.permutation(np.setdiff1d(rows, judged))[: len(judged)]])

    def _some(self, places: Int64[np.ndarray, " n"], most: int) -> Int64[np.ndarray, " some"]:
        """At most so many of them, each once, in random order; 0: all."""
        return self.rng.permutation(places)[: most or None]


def count_pairs(views: int, captions: Sequence[int], train: TrainSection) -> Int64[np.ndarray, " i"]:
    """How many pairs each item has: each view, or several at once, with each caption, or several."""
    counts = np.array(captions, np.int64)
    return (views if train.views == 1 else 1) * (counts if train.captions == 1 else np.ones_like(counts))


def _owners(
    items: Int64[np.ndarray, " i"], observed: Sequence[Int64[np.ndarray, " _"]]
) -> Int64[np.ndarray, " b"]:
    """For each observation, the item that it is of."""
    return np.repeat(items, [len(each) for each in observed])


def add_rivals(
    items: Int64[np.ndarray, " i"], rivals: Mapping[int, Sequence[int]], most: int, rng: np.random.Generator
) -> Int64[np.ndarray, " _"]:
    """Unique items of a step; the room left, or a third of it, is for items mistaken for them."""
    mixed = rng.permutation(items).tolist()
    first = mixed[: max(1, most - most // 3)]
    chosen = [int(rng.choice(rivals[item])) for item in first if rivals.get(item)]
    new = [item for item in dict.fromkeys(chosen) if item not in first][: most - len(first)]
    rest = [item for item in mixed[len(first) :] if item not in new]
    return np.array([*first, *new, *rest][:most], np.int64)


def _shift(
    pictures: UInt8[np.ndarray, "b h w 3"], most: int, corners: Int64[np.ndarray, "b 2"]
) -> UInt8[np.ndarray, "b h w 3"]:
    """Each picture shifted a little, its border repeated. Never mirrored: captions say left and right."""
    size = pictures.shape[1]
    padded = np.pad(pictures, ((0, 0), (most, most), (most, most), (0, 0)), mode="edge")
    return np.stack([p[y : y + size, x : x + size] for p, (y, x) in zip(padded, corners, strict=True)])
