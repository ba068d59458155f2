"""The words of a query, in the names, paths, payloads and captions of items."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from index.contracts import Ids
from index.engine_set.engine_set import Candidates
from index.legs.contracts import Asked, Background, LabelColumn, LegDeclaration, Raw, Table, Thing
from index.texts.contracts import ItemTexts, TextMatch
from index.texts.word_segments import WordScores
from multifold.types import Leg

# Columns of the scores: the coverage is the share of the rarity of a query, what is stated that of a text
SCORE, COVERAGE, STATED = 0, 1, 2
NEARLY_ALL = 0.75  # the share of a query's rarity from which "words all" begins


@dataclass(frozen=True, eq=False)
class WordLeg:
    name: ClassVar[Leg] = "words"
    asked: Asked

    def count(self) -> int:
        """How many items have texts: a name at least."""
        return self.asked.texts.words.count()

    def candidates(self, limit: int, among: Candidates | None) -> Ids:
        """About the best; every item that has any of the words, where each row is asked for."""
        words, allowed = self.asked.texts.words, None if among is None else among.editions
        if self.asked.exact:
            return words.rank(self.asked.said, limit, allowed)[0]
        return words.near(self.asked.said, limit, allowed)

    def scores(self, editions: Ids) -> Raw:
        """What their words say, and how much of the query they have."""
        return _columns(self.asked.texts.words.weigh(self.asked.said, editions))

    def scores_of(self, things: Sequence[Thing]) -> Raw:
        """The same of texts that are no item's."""
        raw = np.full((len(things), 3), np.nan, np.float32)
        there = [place for place, one in enumerate(things) if one.texts is not None]
        texts: list[ItemTexts] = [one.texts for one in things if one.texts is not None]
        if texts:
            raw[there] = _columns(self.asked.texts.words.weigh_texts(self.asked.said, texts))
        return raw

    def columns(self, raw: Raw, background: Background) -> Table:  # noqa: ARG002 (words have a scale of their own)
        """The score; what all words say where an item has nearly all; what counts in short queries."""
        scores = np.fmax(raw[:, SCORE], 0)
        full = np.clip((np.fmax(raw[:, COVERAGE], 0) - NEARLY_ALL) / (1 - NEARLY_ALL), 0, 1)
        every = np.float32(self.asked.texts.words.most(self.asked.said)) * full
        columns = np.stack([scores, every, scores * np.float32(1 - self.asked.length)], axis=1)
        return columns * np.float32(self.asked.text_weight)

    def matches(self, editions: Ids) -> Sequence[TextMatch]:
        """The caption or field that has most of the query, and the words of it that the item has."""
        return self.asked.texts.words.matches(self.asked.said, editions)


def _columns(said: WordScores) -> Raw:
    return np.stack([said.scores, said.shares, said.stated], axis=1)


WORDS = LegDeclaration(
    name="words",
    make=WordLeg,
    # "words all" is what they say together, where an item has nearly all of them; "words short" falls with
    # the words of the query, up to a whole sentence.
    columns=("words", "words all", "words short"),
    prior={"text": {"words": 0.3, "words all": 0.12, "words short": 0.5}},
    wordless={"words": 0.02, "words all": 0.02, "words short": 0.02},
    # they say nothing of pictures, but what is named in a query is meant, whatever is shown of it
    targets=frozenset({"item", "any", "text", "image", "shape"}),
    label=LabelColumn("words", 1.2),
    needs_text=True,
    of_texts=True,
    may_fall=True,
    silent_without="text",  # a name says nothing against an item that has no caption
)
