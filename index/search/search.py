"""From a search request to its hits: nearest rows, items that the words name, both as one ranking, read
from the store.

Scores of two sides do not compare: captions are closer to a text than pictures do. Confidence does: an item
stands where its most confident side puts it. If a side has none, ranks are fused: an item counts
1 / (60 + rank) for each side that found it. Either way a hit is that of one side, with that side's own score.

An item counts 1 / (60 + rank) for the vector and weight / (60 + rank) for the words. The vector's rank of an
item that words name counts down to the 200th place alone: so every page of an answer is of the same order,
however far each had to look. Scores, confidence and the matched observation stay the vector's.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float

from index.contracts import Ids, QueryError, Space
from index.search.engine_queries import ScanQuery, rescored_query, vector_or_scan
from index.search.engine_set import MAX_NUMBER, Candidates, EngineQuery, EngineSet, VectorQuery, usable
from index.search.filter_cache import FilterCache
from index.store import lexical_index
from index.store.filters import Filter
from index.store.item_rows import ItemSummary, read_observations, read_summaries
from index.store.lexical_index import LexicalMatch
from index.store.store import Store
from multifold.errors import needs_extra
from multifold.scores import VectorScorer
from multifold.types import SIDES, Hit, Mix, Observation, Pooling, Query, Side, Vector

with needs_extra("serve"):
    from sqlalchemy import Connection


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


MAX_WEIGHT = 1e3
MAX_PARTS = 64  # of a mixed query
TARGETS = (*SIDES, "any")


def check_query(query: Query, dim: int) -> None:
    """Refuse a query that no engine could answer."""
    if isinstance(query.vector, Mix):
        _check_mix(query.vector, dim)
    else:
        _check_vector(query.vector, dim)
    if query.limit < 1:
        raise QueryError(f"The limit must be 1 or more, not {query.limit}.")
    if query.offset < 0:
        raise QueryError(f"The offset must be 0 or more, not {query.offset}.")
    if query.target not in TARGETS:
        raise QueryError(f"The target must be one of {', '.join(TARGETS)}, not {query.target!r}.")
    if query.pool not in ("mean", "max"):
        raise QueryError(f"The pool must be mean or max, not {query.pool!r}.")


def _check_vector(vector: Vector, dim: int) -> None:
    if vector.shape != (dim,):
        raise QueryError(f"The query's vector has the shape {vector.shape}, this collection's have ({dim},).")
    if not usable(vector[None])[0]:
        raise QueryError(f"The query's vector has numbers that are not finite, or beyond {MAX_NUMBER:g}.")


def _check_mix(mix: Mix, dim: int) -> None:
    if not 1 <= len(mix.parts) <= MAX_PARTS:
        raise QueryError(f"A mixed query has 1 to {MAX_PARTS} parts, not {len(mix.parts)}.")
    for vector, weight in mix.parts:
        _check_vector(vector, dim)
        if not abs(weight) <= MAX_WEIGHT:  # false for NaN too
            raise QueryError(f"A weight lies between -{MAX_WEIGHT:g} and {MAX_WEIGHT:g}, not at {weight}.")
    if not any(weight for _, weight in mix.parts):
        raise QueryError("The weights of a mixed query are all 0: nothing is asked for.")


def engine_query(space: Space, vector: Vector | Mix) -> EngineQuery:
    """What to ask the engines of a space; the signs of the query side are applied."""
    signs = space.query_signs
    if isinstance(vector, Mix):
        query: VectorQuery | ScanQuery = vector_or_scan(space.metric, vector, signs)
    else:
        query = VectorQuery(vector if signs is None else vector * signs)
    rescores = isinstance(space, VectorScorer) and space.rescores
    return rescored_query(space, query, vector) if rescores else query  # type: ignore[arg-type]


NO_ROWS: Ids = np.empty(0, np.int64)


@dataclass(frozen=True)
class LexicalSearch:
    """One question to the words of a collection, of one version of it."""

    derived: EngineSet
    store: Store
    now: Connection
    query: EngineQuery

    def places(self, query: Query, among: Candidates | None) -> list[RankedItem]:
        """The items that the words of the query name and that have its target side, best first."""
        if query.words is None or not self.store.has_words:
            return []
        text = query.words.text
        only = query.words.only
        matches = (
            lexical_index.rank_by_words(self.now, text, self.derived.size())
            if only
            else lexical_index.find_named(self.now, text)
        )
        if among is not None:
            matches = lexical_index.keep_allowed(matches, among.editions)
        ranked: dict[int, RankedItem] = {}
        for side in SIDES if query.target == "any" else (query.target,):
            missing = {edition: one for edition, one in matches.items() if edition not in ranked}
            if missing:
                ranked |= self._of_side(side, missing, query)
        return sorted(ranked.values(), key=lambda place: (-matches[place.id].score, -place.score))

    def _of_side(self, side: Side, matches: dict[int, LexicalMatch], query: Query) -> dict[int, RankedItem]:
        """Those that have this side, as many of the best as may be needed."""
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


Values: TypeAlias = Float[np.ndarray, " p"]
# The confidence of scores on a side among so many items; None where it is not calibrated.
Calibration: TypeAlias = Callable[[Side, Values, int], Values | None]
ConfidenceOf: TypeAlias = Callable[[Side, Sequence[float]], Sequence[float | None]]


@dataclass(frozen=True)
class SearchRequest:
    """A query and among which items it looks; a calibration gives its hits their confidence."""

    query: Query
    where: Filter | None = None
    exact: bool = False  # score every row
    calibration: Calibration | None = None


@dataclass(frozen=True)
class RankedPage:
    """What one query ranked, before anything of it is read."""

    query: EngineQuery
    places: Sequence[RankedItem]
    sure: ConfidenceOf

    def confidence(self) -> Mapping[int, float | None]:
        """How sure each place is."""
        by_place: dict[int, float | None] = {}
        for side, places in _by_side(self.places):
            values = self.sure(side, [one.score for one in places])
            by_place |= {one.id: value for one, value in zip(places, values, strict=True)}
        return by_place


@dataclass(frozen=True)
class Searcher:
    """What is searched: the engines, and the store for what they do not hold."""

    space: Space
    store: Store
    derived: EngineSet
    bitmaps: FilterCache

    def answers(self, asks: Sequence[SearchRequest]) -> list[list[Hit] | None]:
        """The hits of each; None if the engines have to catch up, or the store went on meanwhile."""
        with self.derived.gate.reading(), self.store.moment() as now:
            return self._read([self._page(ask, now) for ask in asks], now)

    def _page(self, ask: SearchRequest, now: Connection) -> RankedPage | None:
        query, version = ask.query, self.derived.seen_at(now)
        if version is None:
            return None
        among = None if ask.where is None else self.bitmaps.candidates(now, ask.where, version)
        if ask.where is not None and among is None:
            return None
        wanted = engine_query(self.space, query.vector)
        nearest = partial(self.derived.nearest, wanted, pool=query.pool, among=among, exact=ask.exact)
        named = LexicalSearch(self.derived, self.store, now, wanted).places(query, among)
        sure = partial(self._sure, ask.calibration, among)
        ranking = _ranking(query, nearest, named, sure)
        return RankedPage(wanted, ranking[query.offset : query.offset + query.limit], sure)

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
        values = calibration(side, np.array(scores), self.derived.choice(side, among))
        return [None] * len(scores) if values is None else values.tolist()

    def _read(self, pages: Sequence[RankedPage | None], now: Connection) -> list[list[Hit] | None]:
        """The hits of each page, as the store has them."""
        editions = [place.id for page in pages if page is not None for place in page.places]
        summaries = read_summaries(now, editions)
        best = [{} if page is None else self._best_rows(page, summaries) for page in pages]
        observations = read_observations(now, list(chain.from_iterable(rows.values() for rows in best)))
        return [
            None if page is None else _hits(page, summaries, rows, observations)
            for page, rows in zip(pages, best, strict=True)
        ]

    def _best_rows(self, page: RankedPage, summaries: Mapping[int, ItemSummary]) -> dict[int, int]:
        """The observation that matches best of each item that is still there."""
        best: dict[int, int] = {}
        for side, places in _by_side(page.places):
            sizes = {one.id: summaries[one.id].size for one in places if one.id in summaries}
            best |= self.derived.best_rows(page.query, side, sizes)
        return best


def _hits(
    page: RankedPage,
    summaries: Mapping[int, ItemSummary],
    best: Mapping[int, int],
    observations: Mapping[int, Observation],
) -> list[Hit] | None:
    """All of a page, or None if one of its items is there no more."""
    if not all(place.id in best and best[place.id] in observations for place in page.places):
        return None
    sure = page.confidence()
    return [
        Hit(
            summaries[one.id].id,
            one.score,
            one.side,
            observations[best[one.id]],
            summaries[one.id].payload,
            sure[one.id],
            one.words,
        )
        for one in page.places
    ]


def _by_side(places: Sequence[RankedItem]) -> Iterator[tuple[Side, list[RankedItem]]]:
    for side in SIDES:
        mine = [place for place in places if place.side == side]
        if mine:
            yield side, mine


def _ranking(
    query: Query,
    nearest: Callable[[Side, int], list[tuple[int, float]]],
    named: Sequence[RankedItem],
    sure: ConfidenceOf,
) -> Sequence[RankedItem]:
    """The ranking up to the end of the query's page, best first."""
    if query.words is not None and query.words.only:
        return named
    end = query.offset + query.limit
    reach = max(end, FUSED_DEPTH) if named else end  # what words name may be deep in the vectors' order
    if query.target == "any":  # confidence tells which side an item is found by
        near = merge_sides({side: _sure_places(side, nearest(side, reach), sure) for side in SIDES})
    else:
        near = [RankedItem(edition, query.target, score) for edition, score in nearest(query.target, reach)]
    return fuse_rankings(near, named, query.words.weight) if query.words is not None and named else near


def _sure_places(side: Side, nearest: Sequence[tuple[int, float]], sure: ConfidenceOf) -> list[RankedItem]:
    values = sure(side, [score for _, score in nearest])
    return [
        RankedItem(edition, side, score, confidence)
        for (edition, score), confidence in zip(nearest, values, strict=True)
    ]
