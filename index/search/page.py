"""From a ranking to hits: what the store has of the items of a page, and what of each item matched.

The store is read once for several pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

from index.contracts import NO_ROW
from index.engine_set.engine_set import EngineSet
from index.legs.contracts import Asked
from index.legs.table import TEXT_LEGS, make_legs
from index.search.edition_cache import EditionCache
from index.search.ranking import Ranking
from index.store.item_rows import ItemSummary, text_rows
from multifold.errors import needs_extra
from multifold.types import (
    ASPECTS,
    KIND_OF_ASPECT,
    SIDE_OF,
    SIDES,
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


def match_texts(asked: Asked, page: Ranking) -> Ranking:
    """A page with the words of the query that each item has, and the texts that the text legs matched."""
    texts: list[dict[Leg, int | str]] = [{} for _ in page.editions]
    words: list[tuple[str, ...]] = [() for _ in page.editions]
    for leg in make_legs(asked, TEXT_LEGS) if asked.text is not None else ():
        heard = [place for place, legs in enumerate(page.legs) if leg.name in legs]
        matches = leg.matches(page.editions[heard]) if heard else ()
        for place, (best, chunks) in zip(heard, matches, strict=True):
            if best is not None:
                texts[place][leg.name] = best
            words[place] += chunks
    return replace(page, queries=asked.engine_queries, words=words, texts=texts)


def _captions(page: Ranking) -> dict[tuple[int, Leg], int]:
    """The number of the caption that a text leg matched, by edition and leg."""
    every = zip(page.editions.tolist(), page.texts, strict=True)
    return {
        (edition, leg): text
        for edition, texts in every
        for leg, text in texts.items()
        if isinstance(text, int)
    }


@dataclass(frozen=True)
class PageReader:
    """Reads pages at one moment of a store."""

    engines: EngineSet
    cache: EditionCache
    now: Connection
    newest: bool = False  # whether all that the engines have is known to be there

    def read(self, pages: Sequence[Ranking | None]) -> list[list[Hit] | None]:
        """The hits of each page; None for those of which an item is there no more."""
        editions = [edition for page in pages if page is not None for edition in page.editions.tolist()]
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

    def _best_rows(self, page: Ranking, summaries: Mapping[int, ItemSummary]) -> MatchedRows:
        """The observations that match best of each item that is still there, by leg."""
        best: MatchedRows = {}
        quoted = _captions(page)
        items = [*zip(page.editions.tolist(), page.sides, page.legs, strict=True)]
        quoting = {edition for edition, _ in quoted}
        for aspect in ASPECTS:
            shown = "shape" if aspect not in SIDES and self.engines.choice(aspect) else aspect
            heard = {edition for edition, side, legs in items if side == shown or aspect in legs}
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
        self, page: Ranking, rows: MatchedRows, observations: Mapping[int, Observation]
    ) -> dict[int, Observation]:
        """Captions whose place is not their number: one before them is damaged, or was removed."""
        read = {
            key: (place, observations.get(rows.get(key, NO_ROW))) for key, place in _captions(page).items()
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
    page: Ranking,
    summaries: Mapping[int, ItemSummary],
    best: MatchedRows,
    observations: Mapping[int, Observation],
) -> list[Hit] | None:
    """All of a page, or None if one of its items is there no more."""
    matched = {key: observations[row] for key, row in best.items() if row in observations}
    shown = [*zip(page.editions.tolist(), page.sides, strict=True)]
    for edition, side in shown:  # a shape without views is shown by what else is known of it
        others = [leg for leg in SHAPE_LEGS if side == "shape" and (edition, leg) in matched]
        if others:
            matched.setdefault((edition, side), matched[edition, others[0]])
    if not all(edition in summaries and (edition, side) in matched for edition, side in shown):
        return None
    scores = zip(page.score.tolist(), page.confidence.tolist(), strict=True)
    texts = zip(page.words, page.texts, page.legs, strict=True)
    return [
        Hit(
            summaries[edition].id,
            score,
            side,
            matched[edition, side],
            summaries[edition].payload,
            confidence,
            words,
            evidence=_evidence_of(edition, legs, fields, matched),
            presence=page.presence,
        )
        for (edition, side), (score, confidence), (words, fields, legs) in zip(
            shown, scores, texts, strict=True
        )
    ]


def _evidence_of(
    edition: int,
    legs: Mapping[Leg, float],
    texts: Mapping[Leg, int | str],
    matched: Mapping[tuple[int, Leg], Observation],
) -> tuple[LegEvidence, ...]:
    """What each leg says of a hit, the strongest first."""
    fields = {leg: text for leg, text in texts.items() if isinstance(text, str)}
    every = [
        LegEvidence(leg, value, matched.get((edition, leg)), fields.get(leg)) for leg, value in legs.items()
    ]
    return tuple(sorted(every, key=lambda leg: -leg.value))
