"""A search of a collection, step by step: filter, encode, rank, threshold, explain, answer."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from app.collections.confidence import UNCALIBRATED, ConfidenceModel
from app.collections.service import CollectionService
from app.search import insight
from app.search.paging import SearchPage
from app.search.query import (
    EncodedPart,
    SearchHits,
    WeightedParts,
    check_confidence,
    check_examples,
    is_single,
    matches_well,
    narrow_filter,
    passes_thresholds,
    search_request,
    side_of,
)
from index.search.evidence_model import EvidenceModel
from index.search.search import SearchRequest
from index.store.filters import Filter
from multifold.types import ConfidenceBasis, Hit, Side
from multifold.wire.search import SearchOptions

DUPLICATE_REACH_FACTOR, DUPLICATE_REACH_LIMIT = 2, 2_000  # hits that are compared to fold duplicates


@dataclass(frozen=True)
class PlannedSearch:
    """What is asked, among which items, and what its hits are judged by. It is allowed."""

    parts: WeightedParts
    options: SearchOptions
    where: Filter | None
    page: SearchPage
    evidence: EvidenceModel
    confidence: ConfidenceModel

    @property
    def side(self) -> Side | None:
        return side_of(self.parts)

    @property
    def is_whole(self) -> bool:
        """Whether items are ranked by the evidence of all their sides."""
        return self.options.target == "item"


async def search(
    service: CollectionService, parts: WeightedParts, options: SearchOptions, where: Filter | None = None
) -> SearchHits:
    """Search with the parts of a query; `where` narrows the filter of the options."""
    start = time.perf_counter()
    planned = await plan_search(service, parts, options, where)
    encoded = await encode_parts(service, parts)
    encode_end = time.perf_counter()
    version = service.collection.version
    ranked, following = await rank_items(service, planned, encoded)
    search_end = time.perf_counter()
    hits, following = apply_thresholds(planned, ranked, following)
    hits = await explain_hits(service, planned, encoded, hits)
    return SearchHits(
        hits,
        version,
        encode_seconds=encode_end - start,
        search_seconds=search_end - encode_end,
        warnings=tuple(dict.fromkeys(warning for one in encoded for warning in one.warnings)),
        basis=confidence_basis(planned, hits),
        matches_well=matches_well(hits) if planned.is_whole else None,
        next=following,
    )


async def plan_search(
    service: CollectionService, parts: WeightedParts, options: SearchOptions, where: Filter | None
) -> PlannedSearch:
    """Read the filter and the page, and refuse what cannot be answered."""
    where, evidence = narrow_filter(options, where), service.evidence_model()
    whole = options.target == "item"
    confidence = UNCALIBRATED if whole else service.confidence.now()
    weighs = whole or (options.target in ("shape", "any") and service.observer.reads_points)
    check_confidence(confidence.curves, parts, options, weighs=weighs)
    page = SearchPage.of(parts, options)
    if options.examples:
        await service.run(partial(check_examples, options.examples, service.item))
    service.searches.refuse_if_full()
    return PlannedSearch(parts, options, where, page, evidence, confidence)


async def encode_parts(service: CollectionService, parts: WeightedParts) -> list[EncodedPart]:
    with service.workers.telemetry.tracing.span("encode", collection=service.name, clues=len(parts)):
        encode = service.queries.encode
        if len(parts) == 1:  # without a task of its own
            return [await encode(parts[0][0])]
        return await asyncio.gather(*(encode(part) for part, _ in parts))


async def rank_items(
    service: CollectionService, planned: PlannedSearch, encoded: Sequence[EncodedPart]
) -> tuple[list[Hit], str | None]:
    """The hits of the page, and the cursor of the following one."""
    parts, options, page = planned.parts, planned.options, planned.page
    first, limit = page.window
    if page.last is not None:
        options = replace(options, after=None, offset=first, limit=limit)
    vectors, curves = [one.vector for one in encoded], planned.confidence.curves
    request = search_request(
        parts, vectors, options, planned.where, curves, planned.evidence, service.settings
    )
    if is_single(parts):
        request = replace(request, legs=encoded[0].forms)
    telemetry = service.workers.telemetry
    with telemetry.tracing.span("search", collection=service.name):
        find = _find_folded if options.duplicates == "fold" else _find
        hits, following = page.cut(await find(service, request), first)
    if planned.side is None:  # a mix, an item or a vector, which no calibration covers
        hits = [replace(hit, confidence=None) for hit in hits]
    if not page.place:
        telemetry.answer(service.name, hits)
    return hits, following


async def _find(service: CollectionService, request: SearchRequest) -> list[Hit]:
    return await service.searches.ask(request, admitted=True)


async def _find_folded(service: CollectionService, request: SearchRequest) -> list[Hit]:
    """Hits that show something new; more are searched until a page of them is full."""
    query = request.query
    reach = end = query.offset + query.limit
    while True:
        reach *= DUPLICATE_REACH_FACTOR
        hits = await _find(service, replace(request, query=replace(query, offset=0, limit=reach)))
        folded = await service.run(partial(service.deduplicator.fold, hits))
        if len(folded) >= end or len(hits) < reach or reach >= DUPLICATE_REACH_LIMIT:
            return [replace(hit, same=tuple(same)) for hit, same in folded[query.offset : end]]


def apply_thresholds(
    planned: PlannedSearch, hits: list[Hit], following: str | None
) -> tuple[list[Hit], str | None]:
    """The hits that reach what is asked of them, with their chance where no confidence is known."""
    options, model = planned.options, planned.confidence
    kept = [hit for hit in hits if passes_thresholds(hit, options)]
    if kept[-1:] != hits[-1:] and not options.diversity:  # what follows is no better
        following = None
    if model.unrelated:
        kept = [replace(hit, chance=model.chance(planned.side, options.pool, hit)) for hit in kept]
    return kept, following


async def explain_hits(
    service: CollectionService, planned: PlannedSearch, encoded: Sequence[EncodedPart], hits: list[Hit]
) -> list[Hit]:
    """The hits, with the score of each of their sides if that is asked for."""
    if not planned.options.explain:
        return hits
    weighted = [(one.vector, weight) for one, (_, weight) in zip(encoded, planned.parts, strict=True)]
    return await service.run(lambda: insight.with_side_scores(service, weighted, hits))


def confidence_basis(planned: PlannedSearch, hits: Sequence[Hit]) -> ConfidenceBasis | None:
    """What the confidence of the hits rests on."""
    side, evidence = planned.side, planned.evidence
    if side is None:
        return None
    if planned.is_whole or any(hit.evidence for hit in hits):
        fitted = evidence.sides if planned.is_whole else evidence.shapes
        return "collection" if side in fitted else "prior"
    return planned.confidence.basis
