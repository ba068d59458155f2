"""A search of a collection, step by step: filter, encode, rank, threshold, explain, answer."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from app.collections.service import CollectionService
from app.errors import ApiError
from app.queries.encoding import NO_FEATURE, EncodedPart
from app.queries.parts import (
    TextQueryPart,
    VectorQueryPart,
    WeightedParts,
    is_single,
    side_of,
    text_weight,
    texts_of,
    weighed_side,
)
from app.search import insight
from app.search.paging import SearchPage
from app.search.reading import Condition, Reading
from app.search.understanding import join_filters, narrowed, take_back, understand, with_text
from app.settings import Settings
from index.cluster.contracts import BehindError
from index.search.model import EvidenceModel
from index.search.query import Query
from index.store.filters import Filter
from multifold.types import NO_EXAMPLES, SIDES, ConfidenceBasis, Hit, Mix, Presence, Side, Target
from multifold.wire.search import LexicalMode, SearchHit, SearchOptions

SEEN_SECONDS = 5.0  # for which a search waits until the index has what its client wrote
SEEN_CHECK_SECONDS = 0.02
DUPLICATE_REACH_FACTOR = 2  # times as many hits are compared to fold duplicates,
DUPLICATE_REACH_LIMIT = 2_000  # and no more than these


@dataclass(frozen=True)
class SearchHits:
    """The hits of a search, and how they were found. Times are in seconds."""

    hits: list[Hit]
    version: int  # of the collection, at least
    encode_seconds: float
    search_seconds: float
    warnings: tuple[str, ...] = ()
    basis: ConfidenceBasis | None = None  # of their confidence
    matches_well: bool | None = None  # whether anything stands out
    understood: Reading | None = None  # which words were a filter
    here: bool | None = None  # whether the collection has what is meant, but for the error that was asked
    error: float | None = None  # how often an answer like this lacks what is meant, where that was asked
    next: str | None = None  # the cursor of the following page
    presence: Presence | None = None  # what all items of the collection say together


@dataclass(frozen=True)
class PlannedSearch:
    """What is asked, among which items, and how its evidence is weighted. It is allowed."""

    parts: WeightedParts
    options: SearchOptions
    stated: Filter | None  # without what the text says
    page: SearchPage
    evidence: EvidenceModel
    reading: Reading | None = None  # of a text with conditions in it

    @property
    def side(self) -> Side | None:
        return side_of(self.parts)

    @property
    def where(self) -> Filter | None:
        return self.stated if self.reading is None else narrowed(self.stated, self.reading.conditions)


async def search(
    service: CollectionService,
    parts: WeightedParts,
    options: SearchOptions,
    where: Filter | None = None,
    sharing: int = 1,
) -> SearchHits:
    """Search with the parts of a query; `where` narrows the filter of the options.

    So many searches share the bytes with which a page ends. What a text says of payloads is a filter, unless
    that leaves nothing.
    """
    start = time.perf_counter()
    planned = await plan_search(service, parts, options, where, sharing)
    query, warnings = await encode_query(service, planned)
    encode_end = time.perf_counter()
    await wait_for_seen(service, options)
    version = service.collection.version
    ranked, following = await rank_items(service, planned, query)
    while not ranked and planned.reading is not None:
        empty, sentences = await find_empty(service, planned)
        if not empty:
            break
        planned = await as_text(service, planned, empty)
        query, cut = await encode_query(service, planned)
        warnings = (*warnings, *cut, *sentences)
        ranked, following = await rank_items(service, planned, query)
    search_end = time.perf_counter()
    here = None if options.error is None else bool(ranked) or planned.page.place > 0
    hits, following = apply_thresholds(planned, ranked, following)
    hits = await explain_hits(service, planned, query, hits)
    return SearchHits(
        hits,
        version,
        encode_seconds=encode_end - start,
        search_seconds=search_end - encode_end,
        warnings=warnings,
        basis=confidence_basis(planned),
        matches_well=matches_well(hits),
        understood=planned.reading,
        here=here,
        error=promised_error(planned, ranked),
        next=following,
        presence=ranked[0].presence if ranked else None,
    )


async def plan_search(
    service: CollectionService,
    parts: WeightedParts,
    options: SearchOptions,
    where: Filter | None,
    sharing: int,
) -> PlannedSearch:
    """Read the filter, the conditions of a text and the page, and refuse what cannot be answered."""
    where = join_filters([where, await service.filter_of(options.filter)])
    options = replace(options, target=choose_target(service, parts, options))
    words = options.lexical or service.settings.lexical
    alone = words == "auto" and options.target in ("item", "any") and side_of(parts) == "text"
    if alone and not service.encoder.encodes:  # nothing else can be asked
        options = replace(options, lexical=(words := "only"))
    check_confidence(parts, options, words)
    check_words(parts, words)
    page = SearchPage.of("search", service.name, parts, options, sharing)
    if options.examples:
        examples = options.examples
        await service.run(lambda: [service.item(name) for name in (*examples.good, *examples.bad)])
    service.searches.refuse_if_full()
    reading = await understand(service, parts, options)
    parts = with_text(parts, reading)
    return PlannedSearch(parts, options, where, page, service.evidence_model(), reading)


def choose_target(service: CollectionService, parts: WeightedParts, options: SearchOptions) -> Target:
    """What is ranked by: for a vector, where items have one side alone, its scores instead of evidence."""
    lone_vector = isinstance(parts[0][0], VectorQueryPart) and is_single(parts)
    if not lone_vector or options.target != "item" or options.examples or options.diversity:
        return options.target
    sides = [side for side in SIDES if service.collection.engines.choice(side)]
    return sides[0] if len(sides) == 1 else "item"


def check_confidence(parts: WeightedParts, options: SearchOptions, words: LexicalMode) -> None:
    """Refuse a search by a confidence or an error that nothing tells."""
    asked = options.min_confidence is not None or options.error is not None
    if asked and side_of(parts) is None:
        sentence = "no confidence is known for this: it needs one text, image or mesh; use 'min_score'"
        raise ApiError(422, "no_calibration", sentence)
    if options.error is not None and words != "auto":
        raise ApiError(422, "no_promise", f"no 'error' is known where 'lexical' is {words!r}")


def check_words(parts: WeightedParts, mode: LexicalMode) -> None:
    """Refuse a search for words alone that has none."""
    if mode == "only" and not texts_of(parts):
        raise ApiError(422, "no_words", "'lexical': 'only' looks for words; ask with a text")


async def encode_query(service: CollectionService, planned: PlannedSearch) -> tuple[Query, tuple[str, ...]]:
    """The query of the index, and what of its parts was not encoded."""
    encoded = await encode_parts(service, planned)
    first, limit = planned.page.window
    options = planned.options
    if planned.page.last is not None:
        options = replace(options, after=None, offset=first, limit=limit)
    query = make_query(planned.parts, encoded, options, planned.where, planned.evidence, service.settings)
    return query, tuple(dict.fromkeys(warning for one in encoded for warning in one.warnings))


async def encode_parts(service: CollectionService, planned: PlannedSearch) -> list[EncodedPart]:
    parts = planned.parts
    if planned.options.lexical == "only" and not service.encoder.encodes:
        return [EncodedPart(NO_FEATURE, np.zeros(service.encoder.dim, np.float32))] * len(parts)
    with service.workers.telemetry.tracing.span("encode", collection=service.name, clues=len(parts)):
        if len(parts) == 1:  # without a task of its own
            return [await service.encode(parts[0][0])]
        return await asyncio.gather(*(service.encode(part) for part, _ in parts))


async def wait_for_seen(service: CollectionService, options: SearchOptions) -> None:
    """Wait until a search sees what its client has written, if it asks for that."""
    if (options.consistency or service.settings.consistency) != "session":
        return
    until = time.monotonic() + SEEN_SECONDS
    while not service.collection.reaches(options.seen or 0):
        if time.monotonic() > until:
            sentence = f"the index does not have version {options.seen} yet, after {SEEN_SECONDS:g} s"
            raise BehindError(sentence)
        await asyncio.sleep(SEEN_CHECK_SECONDS)


async def find_empty(
    service: CollectionService, planned: PlannedSearch
) -> tuple[Sequence[Condition], tuple[str, ...]]:
    """The conditions that leave no item, and a sentence on each."""
    assert planned.reading is not None
    reading, where = planned.reading, planned.stated
    return await service.run(lambda: take_back(service.collection, reading, where), admitted=True)


async def as_text(
    service: CollectionService, planned: PlannedSearch, conditions: Sequence[Condition]
) -> PlannedSearch:
    """The same search, in which some conditions are words of the text again."""
    assert planned.reading is not None
    words = [*(planned.options.as_text or ()), *(one.words for one in conditions)]
    options = replace(planned.options, as_text=words)
    parts = ((TextQueryPart(planned.reading.whole), 1.0),)
    reading = await understand(service, parts, options)
    return replace(planned, parts=with_text(parts, reading), options=options, reading=reading)


async def rank_items(
    service: CollectionService, planned: PlannedSearch, query: Query
) -> tuple[list[Hit], str | None]:
    """The hits of the page, and the cursor of the following one."""
    page = planned.page
    options = planned.options
    telemetry = service.workers.telemetry
    with telemetry.tracing.span("search", collection=service.name):
        find = _find_folded if options.duplicates == "fold" else _find
        hits, following = page.cut(await find(service, query), page.window[0])
    if planned.side is None:  # a mix, an item or a vector: nothing like it was measured
        hits = [unmeasured(hit) for hit in hits]
    if not page.place:
        nothing = options.error is not None and not hits
        telemetry.answer(service.name, hits, unlike=nothing or is_unlike(hits))
    return hits, following


def make_query(
    parts: WeightedParts,
    encoded: Sequence[EncodedPart],
    options: SearchOptions,
    where: Filter | None,
    evidence: EvidenceModel,
    settings: Settings,
) -> Query:
    """The query of the index for parts that were encoded."""
    pairs = zip(encoded, parts, strict=True)
    own = encoded[0].own if is_single(parts) else {}
    return Query(
        encoded[0].vector if is_single(parts) else Mix(tuple((one.vector, part[1]) for one, part in pairs)),
        options.target,
        options.limit,
        options.pool,
        options.offset,
        text=" ".join(texts_of(parts)) or None,
        text_weight=text_weight(parts),
        words=options.lexical or settings.lexical,
        where=where,
        exact=options.exact,
        side=next((side for side in SIDES if side in own), weighed_side(parts)),
        own=own,
        model=evidence,
        examples=options.examples or NO_EXAMPLES,
        diversity=options.diversity,
        error=options.error,
        strong=(options.consistency or settings.consistency) == "strong",
    )


async def _find(service: CollectionService, query: Query) -> list[Hit]:
    queue = service.strong_searches if query.strong else service.searches
    return await queue.ask(query, admitted=True)


async def _find_folded(service: CollectionService, query: Query) -> list[Hit]:
    """Hits that show something new; more are searched until a page of them is full."""
    reach = end = query.offset + query.limit
    while True:
        reach *= DUPLICATE_REACH_FACTOR
        hits = await _find(service, replace(query, offset=0, limit=reach))
        folded = await service.run(partial(service.deduplicator.fold, hits), admitted=True)
        if len(folded) >= end or len(hits) < reach or reach >= DUPLICATE_REACH_LIMIT:
            return [replace(hit, same=tuple(same)) for hit, same in folded[query.offset : end]]


def apply_thresholds(
    planned: PlannedSearch, hits: list[Hit], following: str | None
) -> tuple[list[Hit], str | None]:
    """The hits that reach what is asked of them."""
    options = planned.options
    kept = [hit for hit in hits if passes_thresholds(hit, options)]
    if kept[-1:] != hits[-1:] and not options.diversity:  # what follows is no better
        following = None
    return kept, following


def passes_thresholds(hit: Hit | SearchHit, options: SearchOptions) -> bool:
    if options.min_score is not None and hit.score < options.min_score:
        return False
    least = options.min_confidence
    return least is None or (hit.confidence is not None and hit.confidence >= least)


async def explain_hits(
    service: CollectionService, planned: PlannedSearch, query: Query, hits: list[Hit]
) -> list[Hit]:
    """The hits with what their pictures look like, and the score of each side, as far as it is asked for."""
    hits = await insight.with_looks(service, hits, planned.options.fields)
    if not planned.options.explain:
        return hits
    weighted = query.vector.parts if isinstance(query.vector, Mix) else [(query.vector, planned.parts[0][1])]
    return await insight.with_side_scores(service, weighted, hits)


def confidence_basis(planned: PlannedSearch) -> ConfidenceBasis | None:
    if planned.side is None:
        return None
    return "collection" if planned.side in planned.evidence.sides else "prior"


def matches_well(hits: Sequence[Hit]) -> bool:
    """Whether anything stands out of what a meaningless query finds, and phrases in quotes are anywhere."""
    return any(hit.presence is not None and hit.presence.well for hit in hits[:1])


def promised_error(planned: PlannedSearch, hits: Sequence[Hit]) -> float | None:
    """How often an answer like this lacks what is meant, if that was asked; the first page says it."""
    presence = hits[0].presence if hits else None
    if presence is not None:
        return presence.error
    return None if planned.page.place else planned.options.error


def is_unlike(hits: Sequence[Hit]) -> bool:
    return any(hit.presence is not None and hit.presence.unlike for hit in hits[:1])


def unmeasured(hit: Hit) -> Hit:
    """A hit of a query that nothing is known of like it, but for how much it says."""
    said = hit.presence
    presence = said and replace(said, well=said.gain >= 0, unlike=False, error=None, chance=None)
    return replace(hit, confidence=None, presence=presence)
