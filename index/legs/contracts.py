"""What a leg is, and what it is asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32

from index.contracts import Ids, Space
from index.search.engine_queries import engine_query
from index.search.engine_set import Candidates, EngineQuery, EngineSet
from index.search.standard import Values
from index.texts.contracts import ItemTexts, TextIndex
from index.texts.words import WordIndex
from multifold.types import ASPECTS, Aspect, Leg, Mix, Pooling, Vector

Raw: TypeAlias = Float32[np.ndarray, "_ _"]  # scores of editions in the first column; NaN where one lacks it
Background: TypeAlias = Bool[np.ndarray, " _"]  # which editions stand for the others of the collection
Table: TypeAlias = Float32[np.ndarray, "_ _"]  # what is weighted

SENTENCE = 12  # words of a query that is long
FAR = 2.5  # standard deviations that few items score by chance


def no_sizes(editions: Ids) -> Ids:
    """For the means of observations, which need no sizes."""
    return np.zeros(len(editions), np.int64)


@dataclass(frozen=True, eq=False)
class Thing:
    """What is scored without being an item of the collection: its vectors by leg, and its texts."""

    vectors: Mapping[Aspect, Vector] = field(default_factory=dict)
    texts: ItemTexts | None = None


@dataclass(frozen=True, eq=False)
class Asked:
    """A query as legs are asked it, at one version of a collection."""

    space: Space
    engines: EngineSet
    vector: Vector | Mix
    words: WordIndex
    reader: TextIndex | None = None
    text: str | None = None
    pool: Pooling = "mean"
    exact: bool = False  # candidates too are the best of every row
    own: Mapping[Aspect, Vector] = field(default_factory=dict)
    sizes: Callable[[Ids], Ids] = no_sizes  # of editions: how many observations each has
    finds_itself: bool = (
        False  # whether the very same observation is looked for; words find a caption by itself
    )
    text_weight: float = 1.0  # how much the text counts

    @property
    def length(self) -> float:
        """Of the text, 1 for a whole sentence; 0 without a text."""
        return 0.0 if self.text is None else min(1.0, len(self.text.split()) / SENTENCE)

    def vector_of(self, aspect: Aspect) -> Vector | Mix:
        """What a leg of vectors is asked."""
        return self.own.get(aspect, self.vector)

    @cached_property
    def engine_queries(self) -> Mapping[Aspect, EngineQuery]:
        """The same as the engines are asked it, by leg."""
        common = engine_query(self.space, self.vector)
        own = {aspect: engine_query(self.space, vector) for aspect, vector in self.own.items()}
        return dict.fromkeys(ASPECTS, common) | own


@runtime_checkable
class SearchLeg(Protocol):
    """One leg, asked one query."""

    @property
    def name(self) -> Leg:
        """Which one it is."""

    def count(self) -> int:
        """How many items it chooses from, at most."""

    def candidates(self, limit: int, among: Candidates | None) -> Ids:
        """About the best editions."""

    def scores(self, editions: Ids) -> Raw:
        """What it says of each of these editions, which rise."""

    def scores_of(self, things: Sequence[Thing]) -> Raw:
        """The same of what is no item."""

    def columns(self, raw: Raw, background: Background) -> Table:
        """What is weighted of it."""


def weighed_columns(standard: Values, length: float) -> Table:
    """A standard score, how much of it counts for a query that is so long, and how far it goes beyond chance.

    What a leg does not know scores like others do: hardly ever far beyond them.
    """
    columns = np.repeat(standard[:, None], 3, axis=1)
    columns[:, 1] *= np.float32(length)
    np.maximum(standard - np.float32(FAR), 0, out=columns[:, 2])
    return columns
