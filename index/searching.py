"""Queries to one version of a collection: each is ranked, then what all of them found is read together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from index import rescoring
from index.base import Space
from index.bitmaps import Bitmaps, Candidates
from index.derived import Derived
from index.merging import Place, merged
from index.rescoring import Question
from index.truth.codec import Card
from index.truth.filters import Filter
from index.truth.store import Store
from index.wording.fusing import DEPTH, fused
from index.wording.naming import Naming
from multifold.errors import needs_extra
from multifold.types import SIDES, Hit, Observation, Query, Side

with needs_extra("serve"):
    from sqlalchemy import Connection

Values: TypeAlias = Float[np.ndarray, " p"]
# The confidence of scores on a side among so many items; None where nobody knows.
Calibration: TypeAlias = Callable[[Side, Values, int], Values | None]
Sure: TypeAlias = Callable[[Side, Sequence[float]], Sequence[float | None]]


@dataclass(frozen=True)
class Ask:
    """A query and among which items it looks; a calibration gives its hits their confidence."""

    query: Query
    where: Filter | None = None
    exact: bool = False  # look at every row
    calibration: Calibration | None = None


@dataclass(frozen=True)
class Page:
    """What one query found, before anything of it is read."""

    question: Question
    places: Sequence[Place]
    sure: Sure

    def confidence(self) -> Mapping[int, float | None]:
        """How sure each place is."""
        told: dict[int, float | None] = {}
        for side, places in _by_side(self.places):
            told |= zip(
                (one.id for one in places), self.sure(side, [one.score for one in places]), strict=True
            )
        return told


@dataclass(frozen=True)
class Searching:
    """What is searched: the engines, and the store for what these do not know."""

    space: Space
    store: Store
    derived: Derived
    bitmaps: Bitmaps

    def answers(self, asks: Sequence[Ask]) -> list[list[Hit] | None]:
        """The hits of each; None if the engines have to catch up, or the store went on meanwhile."""
        with self.derived.gate.reading(), self.store.moment() as now:
            return self._read([self._page(ask, now) for ask in asks])

    def _page(self, ask: Ask, now: Connection) -> Page | None:
        query, version = ask.query, self.derived.seen_at(now)
        if version is None:
            return None
        among = None if ask.where is None else self.bitmaps.candidates(now, ask.where, version)
        if ask.where is not None and among is None:
            return None
        question = rescoring.question(self.space, query.vector)
        nearest = partial(self.derived.nearest, question, pool=query.pool, among=among, exact=ask.exact)
        named = Naming(self.derived, self.store, now, question).places(query, among)
        sure = partial(self._sure, ask.calibration, among)
        ranking = _ranking(query, nearest, named, sure)
        return Page(question, ranking[query.offset : query.offset + query.limit], sure)

    def _sure(
        self,
        calibration: Calibration | None,
        among: Candidates | None,
        side: Side,
        scores: Sequence[float],
    ) -> Sequence[float | None]:
        """The confidence of scores, given how many items there are to choose from."""
        if calibration is None:
            return [None] * len(scores)
        told = calibration(side, np.array(scores), self.derived.choice(side, among))
        return [None] * len(scores) if told is None else told.tolist()

    def _read(self, pages: Sequence[Page | None]) -> list[list[Hit] | None]:
        """What was found, as the store has it."""
        there = [page for page in pages if page is not None]
        cards = self.store.cards([place.id for page in there for place in page.places])
        best = [{} if page is None else self._best_rows(page, cards) for page in pages]
        seen = self.store.observations_at(list(chain.from_iterable(rows.values() for rows in best)))
        return [
            None if page is None else _hits(page, cards, rows, seen)
            for page, rows in zip(pages, best, strict=True)
        ]

    def _best_rows(self, page: Page, cards: Mapping[int, Card]) -> dict[int, int]:
        """The observation that matches best of each item that is still there."""
        best: dict[int, int] = {}
        for side, places in _by_side(page.places):
            sizes = {one.id: cards[one.id].size for one in places if one.id in cards}
            best |= self.derived.best_rows(page.question, side, sizes)
        return best


def _hits(
    page: Page, cards: Mapping[int, Card], best: Mapping[int, int], seen: Mapping[int, Observation]
) -> list[Hit] | None:
    """All of a page, or None if one of its items is there no more."""
    if not all(place.id in best and best[place.id] in seen for place in page.places):
        return None
    sure = page.confidence()
    return [
        Hit(
            cards[one.id].id,
            one.score,
            one.side,
            seen[best[one.id]],
            cards[one.id].payload,
            sure[one.id],
            one.words,
        )
        for one in page.places
    ]


def _by_side(places: Sequence[Place]) -> Iterator[tuple[Side, list[Place]]]:
    for side in SIDES:
        mine = [place for place in places if place.side == side]
        if mine:
            yield side, mine


def _ranking(
    query: Query,
    nearest: Callable[[Side, int], list[tuple[int, float]]],
    named: Sequence[Place],
    sure: Sure,
) -> Sequence[Place]:
    """As far as the query's page, best first."""
    if query.words is not None and query.words.only:
        return named
    end = query.offset + query.limit
    reach = max(end, DEPTH) if named else end  # what words name may lie deep in the vectors' order
    if query.target == "any":  # confidence tells which side an item is found by
        near = merged({side: _sure_places(side, nearest(side, reach), sure) for side in SIDES})
    else:
        near = [Place(edition, query.target, score) for edition, score in nearest(query.target, reach)]
    return fused(near, named, query.words.weight) if query.words is not None and named else near


def _sure_places(side: Side, found: Sequence[tuple[int, float]], sure: Sure) -> list[Place]:
    told = sure(side, [score for _, score in found])
    return [
        Place(edition, side, score, confidence)
        for (edition, score), confidence in zip(found, told, strict=True)
    ]
