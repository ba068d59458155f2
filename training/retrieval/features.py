"""The features of a test set: of texts, photos and views, and the item that each belongs to."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float32, Int64

from multifold.types import Features, pool_mean

NO_FEATURES: Features = np.empty((0, 0), np.float32)


@dataclass(frozen=True, eq=False)
class FeatureBank:
    """Features of observations and their owners; those of one item are adjacent, items in order."""

    features: Float32[np.ndarray, "b n"]
    owners: Int64[np.ndarray, " b"]
    texts: Int64[np.ndarray, " b"] | None = None  # of single texts: their number, the same for equal ones

    def __len__(self) -> int:
        return len(self.owners)

    @cached_property
    def starts(self) -> Int64[np.ndarray, " i"]:
        """Where each item's observations begin."""
        return np.flatnonzero(np.diff(self.owners, prepend=-1))

    def pooled(self) -> "FeatureBank":
        if not len(self):
            return self
        means = [pool_mean(some) for some in np.split(self.features, self.starts[1:])]
        return FeatureBank(np.stack(means), self.owners[self.starts])

    def first(self) -> "FeatureBank":
        return self.only(self.places == 0)

    def halves(self) -> tuple["FeatureBank", "FeatureBank"]:
        """Every other observation, and the rest, of the items that have two at least."""
        enough = np.bincount(self.owners)[self.owners] > 1 if len(self) else np.zeros(0, bool)
        return self.only(enough & (self.places % 2 == 0)), self.only(enough & (self.places % 2 == 1))

    def only(self, chosen: Bool[np.ndarray, " b"]) -> "FeatureBank":
        texts = None if self.texts is None else self.texts[chosen]
        return FeatureBank(self.features[chosen], self.owners[chosen], texts)

    @cached_property
    def places(self) -> Int64[np.ndarray, " b"]:
        """Each observation's place among those of its item."""
        sizes = np.diff(self.starts, append=len(self))
        places: Int64[np.ndarray, " b"] = np.arange(len(self)) - np.repeat(self.starts, sizes)
        return places


NO_BANK = FeatureBank(NO_FEATURES, np.empty(0, np.int64))


@dataclass(frozen=True, eq=False)
class HeldOutFeatures:
    """Items of a test set, each side a bank; an item may lack a side."""

    captions: Sequence[Sequence[str]]  # of each item
    text: FeatureBank
    image: FeatureBank  # photos
    shape: FeatureBank  # rendered views
    points: FeatureBank = NO_BANK  # one for each item that has views, where the encoder reads points

    @property
    def pictures(self) -> FeatureBank:
        """Photos; the views where there are no photos."""
        return self.image if len(self.image) else self.shape

    @property
    def whole_shapes(self) -> FeatureBank:
        """One feature of each shape, as a service asks with it: the mean of its views, mixed with its points,
        which are made as long as that mean.
        """
        means = self.shape.pooled()
        if not len(self.points):
            return means
        lengths, theirs = (
            np.linalg.norm(one.features, axis=1, keepdims=True) for one in (means, self.points)
        )
        points = self.points.features * (lengths / np.maximum(theirs, 1e-12))
        mixed: Features = np.stack([means.features, points]).mean(axis=0, dtype=np.float64).astype(np.float32)
        return FeatureBank(mixed, means.owners)

    @cached_property
    def text_items(self) -> Bool[np.ndarray, "t i"]:
        """Which items have each different text."""
        assert self.text.texts is not None
        table = np.zeros((self.text.texts.max(initial=-1) + 1, len(self.captions)), bool)
        table[self.text.texts, self.text.owners] = True
        return table


def make_bank(features: Features, counts: Sequence[int]) -> FeatureBank:
    return FeatureBank(features, np.repeat(np.arange(len(counts)), counts))


def make_text_bank(features: Features, captions: Sequence[Sequence[str]]) -> FeatureBank:
    """Features of captions; captions that differ in case and white space only are one text."""
    plain = [" ".join(text.split()).casefold() for texts in captions for text in texts]
    numbers = np.unique(plain, return_inverse=True)[1] if plain else np.zeros(0, np.int64)
    owners = np.repeat(np.arange(len(captions)), [len(texts) for texts in captions])
    return FeatureBank(features, owners, numbers.astype(np.int64))
