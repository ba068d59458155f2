"""Rankings of one side, of the most confident side of each item, and of the words alone.

Scores of two sides do not compare: captions are closer to a text than pictures do. Confidence does: with the
target `any` an item stands where its most confident side puts it. If a side has none, ranks are fused: an
item counts 1 / (60 + rank) for each side that found it. A hit is that of one side, with that side's score.

Beside a side, words name items: an item counts 1 / (60 + rank) for the vector and weight / (60 + rank) for
the words. The vector's rank of an item that words name counts down to the 200th place alone: so every page
of an answer is of the same order, however far each had to look.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float

from index.contracts import Ids
from index.search.engine_set import WIDER, Candidates, EngineQuery, EngineSet
from index.store.item_rows import read_summaries
from index.texts.named_items import LexicalMatch, find_named
from index.texts.words import WordIndex
from multifold.errors import needs_extra
from multifold.types import SIDES, Leg, Pooling, Query, Side

with needs_extra("serve"):
    from sqlalchemy import Connection

Values: TypeAlias = Float[np.ndarray, " p"]
# The confidence of scores on a side among so many items; None where it is not calibrated.
Calibration: TypeAlias = Callable[[Side, Values, int], Values | None]
ConfidenceOf: TypeAlias = Callable[[Side, Sequence[float]], Sequence[float | None]]


NO_ROWS: Ids = np.empty(0, np.int64)
RANK_OFFSET = 60  # how little the first ranks stand out, as is usual


@runtime_checkable
class RankedEntry(Protocol):
    """What stands in a ranking: a place, or all of a hit."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def id(self) -> Hashable:
        """The item."""

    @property
    def confidence(self) -> float | None:
        """The confidence, if it is calibrated."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the query that name it."""


R = TypeVar("R", bound=RankedEntry)


@dataclass(frozen=True)
class RankedItem:
    """An item in a ranking, before anything of it is read: its edition, and the side that scored."""

    id: int
    side: Side
    score: float
    confidence: float | None = None
    words: tuple[str, ...] = ()  # of the query, that name it
    legs: Mapping[Leg, float] | None = None  # the evidence, where it was added up
    texts: Mapping[Leg, int | str] = field(default_factory=dict)  # that the text legs matched best
    gain: float | None = None


def merge_sides(by_side: Mapping[Side, Sequence[R]]) -> list[R]:
    """Each item once, best first; ties go to the side that comes first."""
    every = [(hit.confidence, hit) for hits in by_side.values() for hit in hits]
    sure = [(confidence, hit) for confidence, hit in every if confidence is not None]
    if len(sure) < len(every):
        return _by_rank(by_side)
    best: dict[Hashable, R] = {}
    for _, hit in sorted(sure, key=lambda pair: -pair[0]):
        best.setdefault(hit.id, hit)
    return list(best.values())


def _by_rank(by_side: Mapping[Side, Sequence[R]]) -> list[R]:
    best: dict[Hashable, tuple[int, R]] = {}
    weight: dict[Hashable, float] = {}
    for hits in by_side.values():
        for rank, hit in enumerate(hits, 1):
            weight[hit.id] = weight.get(hit.id, 0.0) + 1 / (RANK_OFFSET + rank)
            if hit.id not in best or rank < best[hit.id][0]:
                best[hit.id] = rank, hit
    return [best[name][1] for name in sorted(best, key=lambda name: -weight[name])]


FUSED_DEPTH = 200  # so far down do ranks of either kind count where words name an item


def fuse_rankings(near: Sequence[R], named: Sequence[R], weight: float) -> list[R]:
    """Each item once, best first; ties go to what words name."""
    places: dict[Hashable, R] = {}
    counted: dict[Hashable, float] = {}
    by_words = {place.id: rank for rank, place in enumerate(named[:FUSED_DEPTH], 1)}
    for rank, place in enumerate(near, 1):
        places[place.id] = place
        counted[place.id] = 0.0 if place.id in by_words and rank > FUSED_DEPTH else 1 / (RANK_OFFSET + rank)
    for place in named[:FUSED_DEPTH]:
        places[place.id] = replace(places.get(place.id, place), words=place.words)
        counted[place.id] = counted.get(place.id, 0.0) + weight / (RANK_OFFSET + by_words[place.id])
    return [places[one] for one in sorted(counted, key=lambda one: (-counted[one], one not in by_words))]


@dataclass(frozen=True)
class LexicalSearch:
    """One question to the words of a collection, of one version of it."""

    derived: EngineSet
    words: WordIndex
    now: Connection
    query: EngineQuery
    shapes: Callable[[Ids], Mapping[int, RankedItem]] | None = None  # ranks them by more than their views

    def places(self, query: Query, among: Candidates | None) -> list[RankedItem] | None:
        """The items that the words of the query name and that have its target side, best first; None: ask
        again, the store has gone on."""
        if query.words is None:
            return []
        if query.words.only:
            return self._ranked(query, query.words.text, among)
        matches = find_named(self.now, self.words, query.words.text)
        if matches and among is not None:
            allowed = set(np.intersect1d(_sorted(matches), among.editions).tolist())
            matches = {edition: match for edition, match in matches.items() if edition in allowed}
        return None if matches is None else self._of_sides(matches, query)

    def _ranked(self, query: Query, text: str, among: Candidates | None) -> list[RankedItem]:
        """As many as the query's page needs: some that have the words may lack its side."""
        wanted = reach = max(query.offset + query.limit, FUSED_DEPTH)
        while True:
            editions, scores = self.words.rank(text, reach, None if among is None else among.editions)
            chunks = self.words.matches(text, editions)
            matches = {
                edition: LexicalMatch(score, of)
                for edition, score, of in zip(editions.tolist(), scores.tolist(), chunks, strict=True)
            }
            places = self._of_sides(matches, query)
            if len(places) >= wanted or len(editions) < reach:
                return places
            reach *= WIDER

    def _of_sides(self, matches: Mapping[int, LexicalMatch], query: Query) -> list[RankedItem]:
        ranked: dict[int, RankedItem] = {}
        for side in (query.target,) if query.target in SIDES else SIDES:
            missing = {edition: one for edition, one in matches.items() if edition not in ranked}
            if missing:
                ranked |= self._of_side(side, missing, query)
        return sorted(ranked.values(), key=lambda place: (-matches[place.id].score, -place.score))

    def _of_side(self, side: Side, matches: dict[int, LexicalMatch], query: Query) -> dict[int, RankedItem]:
        """Those that have this side, as many of the best as may be needed."""
        if side == "shape" and self.shapes is not None:
            shapes = self.shapes(_sorted(matches))
            chosen = [edition for edition in matches if edition in shapes]
            chosen = chosen[: max(query.offset + query.limit, FUSED_DEPTH)]
            return {one: replace(shapes[one], words=matches[one].chunks) for one in chosen}
        scores = self._scores(side, Candidates(_sorted(matches), NO_ROWS), "mean")
        best = [edition for edition in matches if edition in scores]
        best = best[: max(query.offset + query.limit, FUSED_DEPTH)]
        if query.pool == "max":
            summaries = read_summaries(self.now, best)
            sizes = np.array([summaries[edition].size for edition in sorted(summaries)], np.int64)
            scores = self._scores(side, Candidates(_sorted(summaries), sizes), "max")
        return {
            edition: RankedItem(edition, side, scores[edition], words=matches[edition].chunks)
            for edition in best
            if edition in scores
        }

    def _scores(self, side: Side, among: Candidates, pool: Pooling) -> dict[int, float]:
        return dict(self.derived.nearest(self.query, side, len(among), pool, among, exact=True))


def _sorted(editions: Iterable[int]) -> Ids:
    return np.array(sorted(editions), np.int64)


def rank_by_sides(
    query: Query,
    nearest: Callable[[Side, int], Sequence[RankedItem]],
    named: Sequence[RankedItem],
    sure: ConfidenceOf,
) -> Sequence[RankedItem]:
    """The ranking up to the end of the query's page, best first."""
    if query.words is not None and query.words.only:
        return named
    end = query.offset + query.limit
    reach = max(end, FUSED_DEPTH) if named else end  # what words name may be deep in the vectors' order
    if query.target not in SIDES:  # confidence tells which side an item is found by
        near = merge_sides({side: _sure_places(side, nearest(side, reach), sure) for side in SIDES})
    else:
        near = [*nearest(query.target, reach)]
    return fuse_rankings(near, named, query.words.weight) if query.words is not None and named else near


def _sure_places(side: Side, nearest: Sequence[RankedItem], sure: ConfidenceOf) -> Sequence[RankedItem]:
    """Places with their confidence; where evidence was added up they have it."""
    if any(one.legs is not None for one in nearest):
        return nearest
    values = sure(side, [one.score for one in nearest])
    return [replace(one, confidence=value) for one, value in zip(nearest, values, strict=True)]
