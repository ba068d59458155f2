"""From a search request to its hits: a ranking, and what the store has of its items.

With the target `item` the ranking is that of the evidence of all legs (see evidence.py); other targets are
ranked by a side or by words (see side_rankings.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from index.contracts import NO_ROW, Ids, QueryError, Space
from index.search.diversity import MOVED, diversify, likeness_of
from index.search.engine_queries import ScanQuery, rescored_query, vector_or_scan
from index.search.engine_set import Candidates, EngineQuery, EngineSet, VectorQuery
from index.search.evidence import (
    EvidenceHit,
    EvidenceQuery,
    EvidenceScorer,
    RankedPage,
    StrangerSample,
    no_sizes,
)
from index.search.evidence_model import SHAPE_LEGS, UNFITTED, EvidenceModel, SideModel
from index.search.examples import ExampleScorer, example_scorer
from index.search.filter_cache import FilterCache
from index.search.side_rankings import Calibration, LexicalSearch, RankedItem, rank_by_sides
from index.store.browse import find_editions
from index.store.filters import Filter
from index.store.item_rows import (
    MAX_NUMBER,
    ItemSummary,
    caption_rows,
    read_observations,
    read_summaries,
    usable,
)
from index.store.store import Store
from index.texts.contracts import TextIndex
from index.texts.text_indexes import TextIndexes
from multifold.errors import needs_extra
from multifold.scores import VectorScorer
from multifold.types import (
    ASPECTS,
    NO_EXAMPLES,
    SIDES,
    Examples,
    Hit,
    Leg,
    LegEvidence,
    Mix,
    Observation,
    Query,
    Side,
    Vector,
    Verdict,
)

with needs_extra("serve"):
    from sqlalchemy import Connection

if TYPE_CHECKING:
    from index.search.shape_ranking import ShapeRanking

MAX_WEIGHT = 1e3
MAX_PARTS = 64  # of a mixed query
TARGETS = ("item", *SIDES, "any")


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


@dataclass(frozen=True)
class SearchRequest:
    """A query and among which items it looks; a calibration gives its hits their confidence."""

    query: Query
    where: Filter | None = None
    exact: bool = False  # score every row
    calibration: Calibration | None = None
    side: Side = "text"  # of the query, for the weights of evidence
    evidence: EvidenceModel = UNFITTED
    examples: Examples = NO_EXAMPLES  # of the target item; those that are not there say nothing
    diversity: float = 0.0  # of the target item: 0 to 1, how far look-alikes give way
    shapes: SideModel | None = None  # how the legs of a shape are weighed; else it is the mean of its views
    text: str | None = None  # of the query, whether its words are looked for or not
    legs: Mapping[Leg, Vector] = field(default_factory=dict)  # what a mesh asks those of shapes, each its own


MatchedRows: TypeAlias = dict[tuple[int, Leg], int]  # by edition and leg


@dataclass(frozen=True)
class Searcher:
    """What is searched: the engines, and the store for what they do not hold."""

    space: Space
    store: Store
    derived: EngineSet
    bitmaps: FilterCache
    texts: TextIndexes
    strangers: StrangerSample

    def answers(self, asks: Sequence[SearchRequest]) -> list[list[Hit] | None]:
        """The hits of each; None if the engines have to catch up, or the store went on meanwhile."""
        with self.derived.gate.reading(), self.store.moment() as now:
            version = self.derived.seen_at(now)
            if version is None:
                return [None] * len(asks)
            return self._read([self._page(ask, now, version) for ask in asks], now)

    def scorer(self, now: Connection) -> EvidenceScorer:
        """What scores items on all legs."""
        strangers = self.strangers.editions(now, self.derived.size(), self.derived.version)
        texts = self.texts.current
        return EvidenceScorer(self.derived, strangers, texts.words, texts.reader)

    def _page(self, ask: SearchRequest, now: Connection, version: int) -> RankedPage | None:
        query = ask.query
        among = None if ask.where is None else self.bitmaps.candidates(now, ask.where, version)
        if ask.where is not None and among is None:
            return None
        wanted = engine_query(self.space, query.vector)
        if query.target == "item" and not (query.words is not None and query.words.only):
            return self._by_evidence(ask, wanted, among, now)
        shapes = self._shapes(ask, wanted, among, now)

        def nearest(side: Side, reach: int) -> Sequence[RankedItem]:
            if side == "shape" and shapes is not None:
                return shapes.best(reach)
            found = self.derived.nearest(wanted, side, reach, query.pool, among, exact=ask.exact)
            return [RankedItem(edition, side, score) for edition, score in found]

        of_shapes = None if shapes is None else shapes.of_editions
        words = LexicalSearch(self.derived, self.texts.current.words, now, wanted, of_shapes)
        by_words = words.places(query, among)
        if by_words is None:
            return None
        sure = partial(self._sure, ask.calibration, among)
        ranking = rank_by_sides(query, nearest, by_words, sure)
        return RankedPage(wanted, ranking[query.offset : query.offset + query.limit], sure)

    def _own(self, ask: SearchRequest) -> dict[Leg, EngineQuery]:
        """What legs are asked that have vectors of their own."""
        return {leg: engine_query(self.space, vector) for leg, vector in ask.legs.items()}

    def _shapes(
        self, ask: SearchRequest, wanted: EngineQuery, among: Candidates | None, now: Connection
    ) -> "ShapeRanking | None":
        """What ranks shapes by their points beside their views, if there are any."""
        if (model := ask.shapes) is None or ask.query.target not in ("shape", "any"):
            return None
        if not self.derived.choice("points"):
            return None
        from index.search.shape_ranking import ShapeRanking  # most collections do without

        return ShapeRanking.of(
            self.derived,
            self.scorer(now).strangers,
            EvidenceQuery(wanted, ask.side, ask.text, ask.query.pool, ask.exact, self._own(ask)),
            model,
            among,
            _sizes_of(now) if ask.query.pool == "max" else no_sizes,
        )

    def _by_evidence(
        self, ask: SearchRequest, wanted: EngineQuery, among: Candidates | None, now: Connection
    ) -> RankedPage:
        """The page of items whose evidence of all legs is best."""
        query = ask.query
        text = None if query.words is None else query.words.text
        page, examples = range(query.offset, query.offset + query.limit), self._examples(ask.examples, now)
        hits = self.scorer(now).rank(
            EvidenceQuery(wanted, ask.side, text, query.pool, ask.exact, self._own(ask)),
            ask.evidence.of(ask.side),
            range(max(page.stop, MOVED)) if ask.diversity else page,
            among,
            _sizes_of(now) if query.pool == "max" else no_sizes,
            examples,
        )
        if ask.diversity:
            hits = self._diverse(hits, ask.diversity, examples)[page.start : page.stop]
        editions = np.array([hit.edition for hit in hits], np.int64)
        words = self.texts.current.words.matches(text or "", editions)
        places = [
            RankedItem(
                hit.edition,
                hit.side,
                hit.evidence,
                hit.confidence,
                matched if "words" in hit.legs else (),
                hit.legs,
                texts,
                hit.gain,
            )
            for hit, matched, texts in zip(hits, words, self._best_texts(text or "", hits), strict=True)
        ]
        return RankedPage(wanted, places, partial(self._sure, None, among))

    def _examples(self, examples: Examples, now: Connection) -> ExampleScorer | None:
        """What scores by the examples that are there."""
        if not (examples.good or examples.bad):
            return None
        editions = find_editions(now, [*examples.good, *examples.bad])
        verdicts: dict[int, Verdict] = {editions[one]: "good" for one in examples.good if one in editions}
        verdicts |= {editions[one]: "bad" for one in examples.bad if one in editions}
        return example_scorer(self.derived, verdicts, partial(engine_query, self.space))

    def _diverse(
        self, hits: list[EvidenceHit], diversity: float, examples: ExampleScorer | None
    ) -> list[EvidenceHit]:
        """The best hits in an order in which look-alikes give way; bad examples stay where they are."""
        bad = examples.bad if examples else frozenset()
        best = [hit for hit in hits[:MOVED] if hit.edition not in bad]
        moved = diversify(
            best, diversity, likeness_of(self.space, self.derived, [hit.edition for hit in best])
        )
        rest = [hit for hit in hits[:MOVED] if hit.edition in bad]
        return [*moved, *rest, *hits[MOVED:]]

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
        for page, rows in zip(pages, best, strict=True):
            if page is not None:
                observations |= self._read_others(page, rows, observations, now)
        return [
            None if page is None else self._hits(page, summaries, rows, observations)
            for page, rows in zip(pages, best, strict=True)
        ]

    def _best_rows(self, page: RankedPage, summaries: Mapping[int, ItemSummary]) -> MatchedRows:
        """The observations that match best of each item that is still there, by leg."""
        best: MatchedRows = {}
        quoted = page.captions()
        quoting = {edition for edition, _ in quoted}
        for aspect in ASPECTS:
            shown = "shape" if aspect not in SIDES and self.derived.choice(aspect) else aspect
            heard = {one.id for one in page.places if one.side == shown or aspect in (one.legs or ())}
            wanted = heard | quoting if aspect == "text" else heard
            sizes = {one: summaries[one].size for one in sorted(wanted) if one in summaries}
            if not sizes:
                continue
            ranked = self.derived.ranked_rows(page.query, aspect, sizes)
            best |= {(edition, aspect): rows[0] for edition, rows in ranked.items() if edition in heard}
            for (edition, leg), place in quoted.items() if aspect == "text" else ():
                if place < len(rows := sorted(ranked.get(edition, ()))):
                    best[edition, leg] = rows[place]
        return best

    def _read_others(
        self, page: RankedPage, rows: MatchedRows, observations: Mapping[int, Observation], now: Connection
    ) -> dict[int, Observation]:
        """The captions that are not at the place of their number: an item may lack one before them."""
        read = {
            key: (place, observations.get(rows.get(key, NO_ROW))) for key, place in page.captions().items()
        }
        wrong = {key: place for key, (place, one) in read.items() if one is None or one.index != place}
        if not wrong:
            return {}
        there = caption_rows(now, sorted({edition for edition, _ in wrong}))
        for (edition, leg), place in wrong.items():
            rows.pop((edition, leg), None)
            if (edition, place) in there:
                rows[edition, leg] = there[edition, place]
        return read_observations(now, [rows[key] for key in wrong if key in rows])

    def _best_texts(self, text: str, hits: Sequence[EvidenceHit]) -> list[dict[Leg, int | str]]:
        """Which text of each item each text leg matched best: the number of a caption, or another field."""
        texts: list[dict[Leg, int | str]] = [{} for _ in hits]
        legs: tuple[tuple[Leg, TextIndex | None], ...] = (
            ("words", self.texts.current.words),
            ("reader", self.texts.current.reader),
        )
        for leg, index in legs:
            heard = [place for place, hit in enumerate(hits) if index is not None and leg in hit.legs]
            if index is None or not heard:
                continue
            editions = np.array([hits[place].edition for place in heard], np.int64)
            for place, best in zip(heard, index.best_texts(text, editions), strict=True):
                if best is not None:
                    texts[place][leg] = best
        return texts

    def _hits(
        self,
        page: RankedPage,
        summaries: Mapping[int, ItemSummary],
        best: MatchedRows,
        observations: Mapping[int, Observation],
    ) -> list[Hit] | None:
        """All of a page, or None if one of its items is there no more."""
        matched = {key: observations[row] for key, row in best.items() if row in observations}
        for one in page.places:  # a shape without views is shown by what else is known of it
            others = [leg for leg in SHAPE_LEGS if one.side == "shape" and (one.id, leg) in matched]
            if others:
                matched.setdefault((one.id, one.side), matched[one.id, others[0]])
        if not all(one.id in summaries and (one.id, one.side) in matched for one in page.places):
            return None
        sure = page.confidence()
        return [
            Hit(
                summaries[one.id].id,
                one.score,
                one.side,
                matched[one.id, one.side],
                summaries[one.id].payload,
                sure[one.id],
                one.words,
                evidence=_evidence_of(one, matched),
                gain=one.gain,
            )
            for one in page.places
        ]


def _sizes_of(now: Connection) -> Callable[[Ids], Ids]:
    """What tells how many observations editions have."""

    def sizes(editions: Ids) -> Ids:
        summaries = read_summaries(now, editions.tolist())
        return np.array([summaries[one].size if one in summaries else 0 for one in editions.tolist()])

    return sizes


def _evidence_of(one: RankedItem, matched: Mapping[tuple[int, Leg], Observation]) -> tuple[LegEvidence, ...]:
    """What each leg says of a hit, the strongest first."""
    fields = {leg: text for leg, text in one.texts.items() if isinstance(text, str)}
    every = [
        LegEvidence(leg, value, matched.get((one.id, leg)), fields.get(leg))
        for leg, value in (one.legs or {}).items()
    ]
    return tuple(sorted(every, key=lambda leg: -leg.value))
