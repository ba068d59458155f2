"""A batch as a model sees it: features of both sides, and the item that each belongs to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.checkpoint import checkpoint

from training.batches import Batch
from training.geometries.numerics import precise
from training.ranks import ALONE, Ranks
from training.towers import Model


@dataclass(frozen=True)
class Side:
    """Features of one modality, and the item of each."""

    features: Float[Tensor, "b n"]
    items: Int64[Tensor, " b"]

    def before(self, other: "Side") -> "Side":
        """This, and behind it the other."""
        return Side(torch.cat([self.features, other.features]), torch.cat([self.items, other.items]))


@dataclass(frozen=True)
class Sides:
    """What is compared with what."""

    images: Side
    texts: Side

    def before(self, other: "Sides") -> "Sides":
        """This, and behind it the other."""
        return Sides(self.images.before(other.images), self.texts.before(other.texts))

    @property
    def swapped(self) -> "Sides":
        """Texts in the place of images, for the other direction."""
        return Sides(self.texts, self.images)

    def first(self, count: int) -> "Sides":
        """The first of each side."""
        return Sides(*(Side(s.features[:count], s.items[:count]) for s in (self.images, self.texts)))


class Memory:
    """What was seen in the last steps; for each side's rows, more columns of the other side."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.past: Sides | None = None

    def keep(self, seen: Sides) -> None:
        """Newest first, without gradient; what is beyond the length is forgotten."""
        fresh = Sides(*(Side(side.features.detach(), side.items) for side in (seen.images, seen.texts)))
        longer = fresh if self.past is None else fresh.before(self.past)
        self.past = longer.first(self.length)


def look(model: Model, batch: Batch, text_parts: int = 1, chunk: int = 0, ranks: Ranks = ALONE) -> Sides:
    """Both towers over a batch; in chunks of so many observations, if it is asked for."""
    images = precise(in_turn(model.image, batch.pixels.split(chunk or len(batch.pixels))))
    texts = precise(read(model.text, batch.tokens, text_parts, chunk))
    return Sides(
        Side(ranks.gather(images, len(batch.view_items)), batch.view_items),
        Side(ranks.gather(texts, len(batch.text_items)), batch.text_items),
    )


def read(tower: nn.Module, tokens: Int64[Tensor, "b t"], parts: int, chunk: int = 0) -> Float[Tensor, "b n"]:
    """Texts of like length together, each part cut after its longest: the same features for less work."""
    if getattr(tower, "length", "fixed") == "fixed":
        return in_turn(tower, tokens.split(chunk or len(tokens)))
    lengths, order = (tokens.argmax(1) + 1).sort()  # the end of a text has the highest id
    parts = max(parts, -(-len(tokens) // chunk) if chunk else 1)
    ends = lengths.tensor_split(min(parts, len(tokens)))
    places = order.split([*map(len, ends)])
    texts = [tokens[at][:, : int(end[-1])] for at, end in zip(places, ends, strict=True)]
    read = in_turn(tower, texts) if chunk else torch.cat([tower(text) for text in texts])
    return read[order.argsort()]


def in_turn(tower: nn.Module, parts: Sequence[Tensor]) -> Float[Tensor, "b n"]:
    """One part after the other, each forgotten and encoded again, chance included, when backward asks for it.

    The loss sees all features at once, so its gradient is that of the whole batch, in the memory of one part.
    """
    if len(parts) == 1:
        return torch.as_tensor(tower(parts[0]))
    return torch.cat([checkpoint(tower, part, use_reentrant=False) for part in parts])


def as_one(side: Side, pool: Literal["mean", "max"], normalised: bool) -> Side:
    """Each item's observations become one feature."""
    items, of = side.items.unique(return_inverse=True)
    features = normalize(side.features.float(), dim=-1) if normalised else side.features
    index = of[:, None].expand_as(features)
    start = features.new_zeros(len(items), features.shape[1])
    pooled = start.scatter_reduce(0, index, features, "amax" if pool == "max" else "mean", include_self=False)
    return Side(pooled, items)
