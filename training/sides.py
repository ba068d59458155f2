"""A batch as a model sees it: features of both sides, and the item that each belongs to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from training.batches import TrainingBatch
from training.distributed import SINGLE_PROCESS, ProcessRank
from training.geometries.numerics import precise
from training.towers import TwoTowerModel


@dataclass(frozen=True)
class SideFeatures:
    features: Float[Tensor, "b n"]
    items: Int64[Tensor, " b"]
    pairs: Int64[Tensor, " b"] | None = None  # of pairs: those that become one are of one pair


@dataclass(frozen=True)
class BatchFeatures:
    images: SideFeatures
    texts: SideFeatures
    points: SideFeatures | None = None

    @property
    def swapped(self) -> "BatchFeatures":
        return BatchFeatures(self.texts, self.images)


def encode_batch(
    model: TwoTowerModel,
    batch: TrainingBatch,
    text_parts: int = 1,
    chunk: int = 0,
    ranks: ProcessRank = SINGLE_PROCESS,
    sees: bool = True,
) -> BatchFeatures:
    """All towers over a batch, in chunks of so many observations if wanted; views only where it `sees`."""
    texts = precise(encode_texts(model.text, batch.tokens, text_parts, chunk))
    read = SideFeatures(ranks.gather(texts, len(batch.text_items)), batch.text_items, batch.text_pairs)
    points = _encode_points(model, batch, chunk)
    if not sees:
        return BatchFeatures(SideFeatures(texts[:0], batch.view_items[:0]), read, points)
    images = precise(encode_in_chunks(model.image, torch.split(batch.pixels, chunk or len(batch.pixels))))
    seen = SideFeatures(ranks.gather(images, len(batch.view_items)), batch.view_items, batch.view_pairs)
    return BatchFeatures(seen, read, points)


def _encode_points(model: TwoTowerModel, batch: TrainingBatch, chunk: int) -> SideFeatures | None:
    if model.points is None or batch.points is None or batch.point_items is None:
        return None
    parts = torch.split(batch.points, chunk or len(batch.points))
    return SideFeatures(precise(encode_in_chunks(model.points, parts)), batch.point_items)


def encode_texts(
    tower: nn.Module, tokens: Int64[Tensor, "b t"] | Float[Tensor, "b n"], parts: int, chunk: int = 0
) -> Float[Tensor, "b m"]:
    """Texts of like length together, each part cut after its longest: the same features for less work."""
    if getattr(tower, "length", "fixed") == "fixed":
        return encode_in_chunks(tower, torch.split(tokens, chunk or len(tokens)))
    lengths, order = (tokens.argmax(1) + 1).sort()  # the end of a text has the highest id
    parts = max(parts, -(-len(tokens) // chunk) if chunk else 1)
    ends = lengths.tensor_split(min(parts, len(tokens)))
    places = order.split([*map(len, ends)])
    texts = [tokens[at][:, : int(end[-1])] for at, end in zip(places, ends, strict=True)]
    read = encode_in_chunks(tower, texts) if chunk else torch.cat([tower(text) for text in texts])
    return read[order.argsort()]


def encode_in_chunks(tower: nn.Module, parts: Sequence[Tensor]) -> Float[Tensor, "b n"]:
    """One part after the other, each forgotten and encoded again, chance included, when backward asks for it.

    The loss sees all features at once, so its gradient is that of the whole batch, in the memory of one part.
    """
    if len(parts) == 1:
        return torch.as_tensor(tower(parts[0]))
    return torch.cat([checkpoint(tower, part, use_reentrant=False) for part in parts])


def pool_items(side: SideFeatures, pool: Literal["mean", "max"]) -> SideFeatures:
    """Each item's observations, or each pair's, pooled into one feature."""
    owners, of = (side.items if side.pairs is None else side.pairs).unique(return_inverse=True)
    items = side.items.new_zeros(len(owners)).scatter(0, of, side.items)
    features = side.features
    index = of[:, None].expand_as(features)
    start = features.new_zeros(len(items), features.shape[1])
    pooled = start.scatter_reduce(0, index, features, "amax" if pool == "max" else "mean", include_self=False)
    return SideFeatures(pooled, items)
