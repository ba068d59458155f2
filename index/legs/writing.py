"""Texts that are seen in the photos of items, such as on signs and packages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from index.contracts import Ids
from index.engine_set.engine_set import Candidates
from index.legs.contracts import Asked, Background, LegDeclaration, Raw, Table, Thing
from index.legs.words import WORDS
from index.texts.contracts import TextMatch
from index.texts.words import WordIndex
from multifold.types import Leg


@dataclass(frozen=True, eq=False)
class WritingLeg:
    """The words of a query among the words in photos."""

    name: ClassVar[Leg] = "writing"
    asked: Asked
    words: WordIndex

    def count(self) -> int:
        """How many items have photos in which a text was read."""
        return self.words.count()

    def candidates(self, limit: int, among: Candidates | None) -> Ids:
        """About the best."""
        return self.words.near(self.asked.said, limit, None if among is None else among.editions)

    def scores(self, editions: Ids) -> Raw:
        """What the words in their photos say; nothing of items without any."""
        return self.words.scores(self.asked.said, editions)[:, None]

    def scores_of(self, things: Sequence[Thing]) -> Raw:
        """Nothing of what has no photos."""
        return np.zeros((len(things), 1), np.float32)

    def columns(self, raw: Raw, background: Background) -> Table:  # noqa: ARG002 (words have a scale of their own)
        """The score of the words."""
        return raw * np.float32(self.asked.text_weight)

    def matches(self, editions: Ids) -> Sequence[TextMatch]:
        """None of the texts of the item itself."""
        return [TextMatch(None)] * len(editions)


def make_writing_leg(asked: Asked) -> WritingLeg | None:
    """The leg of a collection whose photos are read."""
    return None if asked.texts.writing is None else WritingLeg(asked, asked.texts.writing)


WRITING = LegDeclaration(
    name="writing",
    make=make_writing_leg,
    columns=("writing",),
    prior={"text": {"writing": 0.3}},
    wordless={"writing": 0.3},
    targets=frozenset({"item", "any", "image"}),
    label=WORDS.label,
    needs_text=True,
)
