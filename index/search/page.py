"""From a ranking to hits: what the store has of the items of a page, and what of each item matched.

The store is read once for several pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np

from index.contracts import NO_ROW
from index.engine_set.engine_set import EngineQuery, EngineSet
from index.legs.contracts import Asked
from index.legs.table import TEXT_LEGS, make_legs
from index.search.edition_cache import EditionCache
from index.search.ranking import RankedItem
from index.store.item_rows import ItemSummary, text_rows
from multifold.errors import needs_extra
from multifold.types import (
    ASPECTS,
    KIND_OF_ASPECT,
    SIDE_OF,
    SIDES,
    Aspect,
    Hit,
    Leg,
    LegEvidence,
    Observation,
)

with needs_extra("serve"):
    from sqlalchemy import Connection

MatchedRows: TypeAlias = dict[tuple[int, Leg], int]  # by edition and leg
# What is known of a shape.
SHAPE_LEGS = tuple(one for one in ASPECTS if SIDE_OF[KIND_OF_ASPECT[one]] == "shape")


@dataclass(frozen=True)
class RankedPage:
    """What one query ranked, before anything of it is read."""

    queries: Mapping[Aspect, EngineQuery]  # of the sides, which tell what of an item matched
    items: Sequence[RankedItem]
    words: Sequence[tuple[str, ...]]  # of the query, that each item has
    texts: Sequence[
        Mapping[Leg, int | str]
    ]  # that the text legs matched: the number of a caption, or a field

    def captions(self) -> dict[tuple[int, Leg], int]:
        """The number of the caption that a text leg matched, by edition and leg."""
        every = zip(self.items, self.texts, strict=True)
        return {
            (one.edition, leg): text
            for one, texts in every
            for leg, text in texts.items()
            if isinstance(text, int)
        }


def matched_texts(
    asked: Asked, items: Sequence[RankedItem]
) -> tuple[list[tuple[str, ...]], list[dict[Leg, int | str]]]:
    """Which words of a query each item has, and which of its texts each text leg matched best."""
    texts: list[dict[Leg, int | str]] = [{} for _ in items]
    named: list[tuple[str, ...]] = [() for _ in items]
    for leg in make_legs(asked, TEXT_LEGS) if asked.text is not None else ():
        heard = [place for place, item in enumerate(items) if leg.name in item.legs]
        editions = np.array([items[place].edition for place in heard], np.int64)
        for place, (best, chunks) in zip(heard, leg.matches(editions) if heard else (), strict=True):
            if best is not None:
                texts[place][leg.name] = best
            named[place] += chunks
    return named, texts


@dataclass(frozen=True)
class PageReader:
    """Reads pages at one moment of a store."""

    engines: EngineSet
    cache: EditionCache
    now: Connection
    newest: bool = False  # whether all that the engines have is known to be there

    def read(self, pages: Sequence[RankedPage | None]) -> list[list[Hit] | None]:
        """The hits of each page; None for those of which an item is there no more."""
        editions = [item.edition for page in pages if page is not None for item in page.items]
        summaries = self.cache.summaries(self.now, editions, newest=self.newest)
        best = [{} if page is None else self._best_rows(page, summaries) for page in pages]
        rows = list(chain.from_iterable(rows.values() for rows in best))
        observations = self.cache.observations(self.now, rows)
        for page, matched in zip(pages, best, strict=True):
            if page is not None:
                observations |= self._read_others(page, matched, observations)
        return [
            None if page is None else _hits(page, summaries, matched, observations)
            for page, matched in zip(pages, best, strict=True)
        ]

    def _best_rows(self, page: RankedPage, summaries: Mapping[int, ItemSummary]) -> MatchedRows:
        """The observations that match best of each item that is still there, by leg."""
        best: MatchedRows = {}
        quoted = page.captions()
        quoting = {edition for edition, _ in quoted}
        for aspect in ASPECTS:
            shown = "shape" if aspect not in SIDES and self.engines.choice(aspect) else aspect
            heard = {one.edition for one in page.items if one.side == shown or aspect in one.legs}
            wanted = heard | quoting if aspect == "text" else heard
            sizes = {one: summaries[one].size for one in sorted(wanted) if one in summaries}
            if not sizes:
                continue
            ranked = self.engines.ranked_rows(page.queries[aspect], aspect, sizes)
            best |= {(edition, aspect): rows[0] for edition, rows in ranked.items() if edition in heard}
            for (edition, leg), place in quoted.items() if aspect == "text" else ():
                if place < len(rows := sorted(ranked.get(edition, ()))):
                    best[edition, leg] = rows[place]
        return best

    def _read_others(
        self, page: RankedPage, rows: MatchedRows, observations: Mapping[int, Observation]
    ) -> dict[int, Observation]:
        """Captions whose place is not their number: one before them is damaged, or was removed."""
        read = {
            key: (place, observations.get(rows.get(key, NO_ROW))) for key, place in page.captions().items()
        }
        wrong = {key: place for key, (place, one) in read.items() if one is None or one.index != place}
        if not wrong:
            return {}
        there = text_rows(self.now, sorted({edition for edition, _ in wrong}))
        for (edition, leg), place in wrong.items():
            rows.pop((edition, leg), None)
            if place < len(there[edition]):
                rows[edition, leg] = there[edition][place]
        return self.cache.observations(self.now, [rows[key] for key in wrong if key in rows])


def _hits(
    page: RankedPage,
    summaries: Mapping[int, ItemSummary],
    best: MatchedRows,
    observations: Mapping[int, Observation],
) -> list[Hit] | None:
    """All of a page, or None if one of its items is there no more."""
    matched = {key: observations[row] for key, row in best.items() if row in observations}
    for one in page.items:  # a shape without views is shown by what else is known of it
        others = [leg for leg in SHAPE_LEGS if one.side == "shape" and (one.edition, leg) in matched]
        if others:
            matched.setdefault((one.edition, one.side), matched[one.edition, others[0]])
    if not all(one.edition in summaries and (one.edition, one.side) in matched for one in page.items):
        return None
    return [
        Hit(
            summaries[one.edition].id,
            one.score,
            one.side,
            matched[one.edition, one.side],
            summaries[one.edition].payload,
            one.confidence,
            words,
            evidence=_evidence_of(one, texts, matched),
            gain=one.gain,
            unlike=one.unlike,
        )
        for one, words, texts in zip(page.items, page.words, page.texts, strict=True)
    ]


def _evidence_of(
    one: RankedItem, texts: Mapping[Leg, int | str], matched: Mapping[tuple[int, Leg], Observation]
) -> tuple[LegEvidence, ...]:
    """What each leg says of a hit, the strongest first."""
    fields = {leg: text for leg, text in texts.items() if isinstance(text, str)}
    every = [
        LegEvidence(leg, value, matched.get((one.edition, leg)), fields.get(leg))
        for leg, value in one.legs.items()
    ]
    return tuple(sorted(every, key=lambda leg: -leg.value))
