"""Items that words name: places in a ranking, scored by the vector as every place is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from index.base import Ids
from index.bitmaps import Candidates
from index.derived import Derived
from index.merging import Place
from index.rescoring import Question
from index.truth.store import Store
from index.wording import lexical
from index.wording.fusing import DEPTH
from index.wording.lexical import Told
from multifold.errors import needs_extra
from multifold.types import SIDES, Pool, Query, Side

with needs_extra("serve"):
    from sqlalchemy import Connection

NOTHING: Ids = np.empty(0, np.int64)


@dataclass(frozen=True)
class Naming:
    """One question to the words of a collection, of one version of it."""

    derived: Derived
    store: Store
    now: Connection
    question: Question

    def places(self, query: Query, among: Candidates | None) -> list[Place]:
        """The items that the words of the query name and that have its target side, best first."""
        if query.words is None or not self.store.has_words:
            return []
        text = query.words.text
        only = query.words.only
        told = lexical.ranked(self.now, text, self.derived.size()) if only else lexical.named(self.now, text)
        if among is not None:
            told = lexical.among(told, among.editions)
        found: dict[int, Place] = {}
        for side in sides_of(query) if told else ():
            missing = {edition: one for edition, one in told.items() if edition not in found}
            found |= self._of_side(side, missing, query)
        return sorted(found.values(), key=lambda place: (-told[place.id].score, -place.score))

    def _of_side(self, side: Side, told: dict[int, Told], query: Query) -> dict[int, Place]:
        """Those that have this side, as many of the best as may be wanted."""
        there = self._scored(side, Candidates(_sorted(told), NOTHING), "mean")
        best = [edition for edition in told if edition in there]
        best = best[: max(query.offset + query.limit, DEPTH)]
        if query.pool == "max":
            cards = self.store.cards(best)
            sizes = np.array([cards[edition].size for edition in sorted(cards)], np.int64)
            there = self._scored(side, Candidates(_sorted(cards), sizes), "max")
        return {
            edition: Place(edition, side, there[edition], words=told[edition].chunks)
            for edition in best
            if edition in there
        }

    def _scored(self, side: Side, among: Candidates, pool: Pool) -> dict[int, float]:
        nearest = self.derived.nearest(self.question, side, len(among), pool, among, exact=True)
        return dict(nearest)


def sides_of(query: Query) -> Sequence[Side]:
    """The sides that a query looks at."""
    return SIDES if query.target == "any" else (query.target,)


def _sorted(editions: Iterable[int]) -> Ids:
    return np.array(sorted(editions), np.int64)
