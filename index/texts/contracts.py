"""The texts of an item, and what an index of texts answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float32

from index.contracts import Ids
from multifold.errors import MultifoldError

Scores: TypeAlias = Float32[np.ndarray, " _"]


class TextIndexError(MultifoldError):
    """A text index was given items or files that it cannot use."""


@dataclass(frozen=True)
class ItemTexts:
    """All that is written of one edition of an item."""

    edition: int
    name: str
    path: str | None = None  # of its file in the folder that it was ingested from
    captions: tuple[str, ...] = ()  # in the order of its observations
    values: tuple[str, ...] = ()  # of its payload


FIELDS = ("name", "path", "payload", "caption")  # texts of an item stand in this order
NAME, PATH, PAYLOAD, CAPTION = range(len(FIELDS))
NOTHING = -1 - CAPTION  # the label of no text; a caption's is its place, of other fields it is -1 - field


def text_of_label(label: int) -> int | str | None:
    """The text that a label stands for: a caption's place, or its field."""
    if label == NOTHING:
        return None
    return label if label >= 0 else FIELDS[-1 - label]


class TextMatch(NamedTuple):
    """What of an item matches a query."""

    text: int | str | None  # that matches best: a caption's place, "name", "payload" or "path"
    words: tuple[str, ...] = ()  # of the query, that the item has


@runtime_checkable
class TextIndex(Protocol):
    """Texts of items by edition, asked with a text.

    Questions may run beside each other and beside a change; changes run one by one.
    """

    def add(self, items: Sequence[ItemTexts]) -> None:
        """Add items; an edition that is already there is a TextIndexError, and nothing is added."""

    def remove(self, editions: Sequence[int]) -> None:
        """Remove editions; those that are not there are ignored."""

    def rank(self, query: str, limit: int, allowed: Ids | None = None) -> tuple[Ids, Scores]:
        """The best editions, best first, with scores above 0; ties go to the smaller edition."""

    def scores(self, query: str, editions: Ids) -> Scores:
        """What the texts of these editions say of a query, in their order; 0 where they say nothing."""

    def scores_of(self, query: str, items: Sequence[ItemTexts]) -> Scores:
        """What texts that are not in the index would score in it."""

    def matches(self, query: str, editions: Ids) -> list[TextMatch]:
        """What of each edition matches."""

    def count(self) -> int:
        """How many items there are."""

    @property
    def nbytes(self) -> int:
        """How much memory or mapped file it takes."""

    def save(self, path: Path) -> None:
        """Write it into a folder that is made."""

    def load(self, path: Path) -> None:
        """Replace all of it by what was saved; a damaged or foreign save is a TextIndexError."""
