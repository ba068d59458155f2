"""What a leg is, and what it is asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32

from index.contracts import Ids, Space
from index.engine_set.engine_queries import engine_query
from index.engine_set.engine_set import Candidates, EngineQuery, EngineSet
from index.legs.standard import Values
from index.texts.contracts import ItemTexts, TextMatch
from index.texts.text_indexes import TextIndexSet
from multifold.types import ASPECTS, Aspect, Leg, Mix, Pooling, Side, Target, Vector

Raw: TypeAlias = Float32[np.ndarray, "_ _"]  # scores of editions in the first column; NaN where one lacks it
Background: TypeAlias = Bool[np.ndarray, " _"]  # which editions stand for the others of the collection
Table: TypeAlias = Float32[np.ndarray, "_ _"]  # what is weighted

SENTENCE = 12  # words of a query that is long
FEW_WORDS = 2  # of a query that may be the name of a kind
FAR = 2.5  # standard deviations that few items score by chance


def no_sizes(editions: Ids) -> Ids:
    """For the means of observations, which need no sizes."""
    return np.zeros(len(editions), np.int64)


def no_editions() -> Ids:
    return np.empty(0, np.int64)


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
    texts: TextIndexSet
    text: str | None = None
    side: Side = "text"
    pool: Pooling = "mean"
    exact: bool = False  # candidates too are the best of every row
    own: Mapping[Aspect, Vector] = field(default_factory=dict)
    sizes: Callable[[Ids], Ids] = no_sizes  # of editions: how many observations each has
    # whether the very same observation is looked for; words find a caption by itself
    finds_itself: bool = False
    text_weight: float = 1.0  # how much the text counts
    background: Ids = field(default_factory=no_editions)  # rising, which stand for all others
    names: tuple[Leg, ...] = ()  # of the legs that are asked
    shown: tuple[Aspect, ...] = ASPECTS  # of which an item has to have one
    as_whole: bool = True  # whether items are scored by their evidence, or by the side that is shown

    @property
    def said(self) -> str:
        """The text, as legs of texts are asked it; nothing without one."""
        return self.text or ""

    @property
    def length(self) -> float:
        """Of the text, 1 for a whole sentence; 0 without a text."""
        return 0.0 if self.text is None else min(1.0, len(self.text.split()) / SENTENCE)

    @property
    def may_mean_others(self) -> bool:
        """Whether things may be meant that lack its words: a word or two name a kind, but for a number."""
        return 0 < len(self.said.split()) <= FEW_WORDS and not any(map(str.isdigit, self.said))

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

    def matches(self, editions: Ids) -> Sequence[TextMatch]:
        """Which of its texts matched, of each of these editions; none of a leg that compares no texts."""


@dataclass(frozen=True)
class LabelColumn:
    """What legs say of a label, weighed as one: with this weight before a fit."""

    name: str
    weight: float  # of a standard deviation, or of having all words


@dataclass(frozen=True, kw_only=True, eq=False)
class LegDeclaration:
    """All that others need to know of a leg; `table.py` has the list of them."""

    name: Leg
    make: Callable[[Asked], SearchLeg | None]  # None where a collection lacks its index
    columns: tuple[str, ...]  # what is weighted of it, by names that no other leg has
    # Weights before anything is fitted, by the side of the query and the column; 0 where none is stated.
    prior: Mapping[Side, Mapping[str, float]] = field(default_factory=dict)
    wordless: Mapping[str, float]  # the same for texts of whose words no item has much
    targets: frozenset[Target]  # that ask it
    label: LabelColumn
    needs_text: bool = False  # it is asked by the text of a query, and compares it with texts
    of_texts: bool = False  # what it knows of an item are its texts, which a fit hides together
    knows_same: bool = False  # whether the column `SAME` of its scores says that an item has what asks
    takes_long: bool = False  # so it is asked only where words do not say what is meant
    may_fall: bool = False  # whether a fit may weigh it less than before
    bare: str | None = None  # its column that counts only for items without a text, and that may fall
    silent_without: Leg | None = None  # it says nothing against an item that this leg lacks


def weighed_columns(standard: Values, length: float) -> Table:
    """A standard score, how much of it counts for a query that is so long, and how far it goes beyond chance.

    What a leg does not know scores like others do: hardly ever far beyond them.
    """
    columns = np.repeat(standard[:, None], 3, axis=1)
    columns[:, 1] *= np.float32(length)
    np.maximum(standard - np.float32(FAR), 0, out=columns[:, 2])
    return columns
