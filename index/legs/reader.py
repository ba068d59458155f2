"""What a text reader says: how near the query's meaning is to names and captions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from index.contracts import Ids
from index.engine_set.engine_set import Candidates
from index.legs.contracts import (
    Asked,
    Background,
    LabelColumn,
    LegDeclaration,
    Raw,
    Table,
    Thing,
    weighed_columns,
)
from index.legs.standard import Values, standardise
from index.texts.contracts import ItemTexts, TextIndex, TextMatch
from multifold.types import Leg


@dataclass(frozen=True, eq=False)
class ReaderLeg:
    name: ClassVar[Leg] = "reader"
    asked: Asked
    reader: TextIndex

    def count(self) -> int:
        """How many items have a text that the reader knows."""
        return self.reader.count()

    def candidates(self, limit: int, among: Candidates | None) -> Ids:
        return self.reader.rank(self.asked.said, limit, None if among is None else among.editions)[0]

    def scores(self, editions: Ids) -> Raw:
        """The cosine of the nearest text of each edition."""
        return _known(self.reader.scores(self.asked.said, editions))

    def scores_of(self, things: Sequence[Thing]) -> Raw:
        """The same of texts that are no item's."""
        raw = np.full((len(things), 1), np.nan, np.float32)
        there = [place for place, one in enumerate(things) if one.texts is not None]
        texts: list[ItemTexts] = [one.texts for one in things if one.texts is not None]
        if texts:
            raw[there] = _known(self.reader.scores_of(self.asked.said, texts))
        return raw

    def columns(self, raw: Raw, background: Background) -> Table:
        """Standard scores, and what they are for queries that may mean what lacks their words."""
        standard = standardise(raw[:, 0], background)
        columns = weighed_columns(standard, self.asked.length)
        of_kinds = standard * np.float32(self.asked.may_mean_others)
        return np.column_stack([columns, of_kinds]) * np.float32(self.asked.text_weight)

    def matches(self, editions: Ids) -> Sequence[TextMatch]:
        """The nearest caption or field."""
        return self.reader.matches(self.asked.said, editions)


def _known(scores: Values) -> Raw:
    """Of a text without a known word nothing is known."""
    return np.where(scores == 0, np.float32(np.nan), scores)[:, None]


def make_reader_leg(asked: Asked) -> ReaderLeg | None:
    """The leg of the collection's reader, if it has one."""
    return None if asked.texts.reader is None else ReaderLeg(asked, asked.texts.reader)


READER = LegDeclaration(
    name="reader",
    make=make_reader_leg,
    columns=("reader", "reader long", "reader far", "reader kind"),
    prior={"text": {"reader kind": 0.2}},
    wordless={"reader": 1.2, "reader far": 0.05},
    targets=frozenset({"item", "text"}),
    label=LabelColumn("reader", 0.4),
    needs_text=True,
    of_texts=True,
    takes_long=True,
)
