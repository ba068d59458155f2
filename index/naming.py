"""Hits by words: what the lexical index names, scored by the vector as every hit is."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from index import lexical
from index.base import Ids
from index.bitmaps import Candidates
from index.derived import Derived
from index.fusing import DEPTH
from index.lexical import Told
from index.mixing import Question
from index.store import Store
from multifold.errors import needs_extra
from multifold.types import SIDES, Hit, Pool, Query, Side

with needs_extra("serve"):
    from sqlalchemy import Connection

Scored: TypeAlias = Sequence[tuple[int, float]]  # editions
NOTHING: Ids = np.empty(0, np.int64)


@dataclass(frozen=True)
class Naming:
    """One question to the words of a collection, of one version of it."""

    derived: Derived
    store: Store
    now: Connection
    question: Question
    shown: Callable[[Question, Side, Scored], list[Hit]]

    def hits(self, query: Query, among: Candidates | None) -> list[Hit]:
        """The items that the words of the query name and that have its target side, best first."""
        if query.words is None or not self.store.has_words:
            return []
        text = query.words.text
        only = query.words.only
        told = lexical.ranked(self.now, text, self.derived.size()) if only else lexical.named(self.now, text)
        if among is not None:
            told = lexical.among(told, among.editions)
        found: dict[int, Hit] = {}
        for side in sides_of(query):
            missing = {edition: one for edition, one in told.items() if edition not in found}
            found |= self._of_side(side, missing, query)
        there = [edition for edition in told if edition in found]
        return [found[one] for one in sorted(there, key=lambda one: (-told[one].score, -found[one].score))]

    def _of_side(self, side: Side, told: dict[int, Told], query: Query) -> dict[int, Hit]:
        """Those that have this side, as many of the best as may be wanted."""
        there = self._scored(side, Candidates(_sorted(told), NOTHING), "mean")
        best = [edition for edition in told if edition in there]
        best = best[: max(query.offset + query.limit, DEPTH)]
        cards = self.store.cards(best)
        if query.pool == "max":
            sizes = np.array([cards[edition].size for edition in sorted(cards)], np.int64)
            there = self._scored(side, Candidates(_sorted(cards), sizes), "max")
        hits = self.shown(self.question, side, [(one, there[one]) for one in best if one in cards])
        by_id = {hit.id: hit for hit in hits}
        return {
            edition: replace(by_id[card.id], words=told[edition].chunks)
            for edition, card in cards.items()
            if card.id in by_id
        }

    def _scored(self, side: Side, among: Candidates, pool: Pool) -> dict[int, float]:
        nearest = self.derived.nearest(self.question, side, len(among), pool, among, exact=True)
        return dict(nearest)


def sides_of(query: Query) -> Sequence[Side]:
    """The sides that a query looks at."""
    return SIDES if query.target == "any" else (query.target,)


def _sorted(editions: Iterable[int]) -> Ids:
    return np.array(sorted(editions), np.int64)
