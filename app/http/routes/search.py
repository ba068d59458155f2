"""Searches, one or several at once, items that are alike, and facets."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from app.collections.service import CollectionService
from app.errors import ApiError, refusal, status_of_several
from app.http.dependencies import AddressDep, CollectionDep, CollectionName, CollectionsDep
from app.http.forms import FormRoute, check_form, form_body, read_search_form
from app.http.openapi import body_errors, some_refused
from app.http.routers import collection_router
from app.http.routes.items import ItemRoute, item_address, serialize_observation
from app.ingest.uploads import check_many
from app.queries.parts import ItemQueryPart, choose_sides, read_parts
from app.runtime.collections import Collections
from app.search.insight import with_looks
from app.search.many import AskMember, attempt, check_several, search_several
from app.search.paging import SearchPage, choose_keys
from app.search.reading import Reading
from app.search.search import SearchHits
from app.search.search import search as run_search
from index.registry import SeveralCollectionsError
from index.store import browse
from index.store.browse import Choice, ValueCount
from multifold.errors import MultifoldError
from multifold.types import Hit
from multifold.wire.search import (
    HIT_FIELDS,
    MAX_COLLECTIONS,
    BatchSearchAnswer,
    BatchSearchBody,
    BatchSearchOutcome,
    DuplicateItem,
    EvidenceShare,
    FacetsAnswer,
    FacetsBody,
    FacetValueCount,
    NumberRange,
    Search,
    SearchAnswer,
    SearchHit,
    SearchTimings,
    SimilarBody,
    Understood,
    UnderstoodCondition,
)
from multifold.wire.validation import validate

router = collection_router()


@dataclass(frozen=True)
class SearchedService:
    """What a search is asked: a collection or several, which a path names, and others by their names."""

    name: str  # in the path
    service: CollectionService  # of this name, or if it names several, the default one
    collections: Collections
    remotes: Mapping[str, AskMember]

    async def answer(self, body: Search, sharing: int = 1) -> SearchAnswer:
        """So many searches share the bytes with which a page ends."""
        names = self.names(body)
        if not names:
            return await self._answer_by(self.service, sharing, body)
        check_several(body)
        check_many(len(names), "collections", MAX_COLLECTIONS)
        members = {name: await self._member(name, sharing * len(names)) for name in names}
        return await search_several(members, body, read_parts(body, self.service.settings.max_text))

    def names(self, body: Search) -> list[str]:
        """The collections that a search asks, if it asks several: an alias may name some of them."""
        groups = self.collections.groups
        named = body.collections or groups.get(self.name, ())
        return [*dict.fromkeys(member for name in named for member in groups.get(name, (name,)))]

    async def attempt(self, body: Search | MultifoldError, sharing: int) -> SearchAnswer | MultifoldError:
        if isinstance(body, MultifoldError):
            return body
        return await attempt(partial(self.answer, sharing=sharing), body)

    async def _member(self, name: str, sharing: int) -> AskMember:
        if name in self.remotes:
            return self.remotes[name]
        return partial(self._answer_by, await self.collections.find(name), sharing)

    async def _answer_by(self, service: CollectionService, sharing: int, body: Search) -> SearchAnswer:
        async with service.workers.searching.turn():
            parts = read_parts(body, service.settings.max_text)
            found = await run_search(service, parts, body, sharing=sharing)
            return serialize_answer(found, service, self.collections.address(service), body.fields)


async def find_searched(
    request: Request, collections: CollectionsDep, collection: CollectionName
) -> SearchedService:
    try:
        service = await collections.find(collection)
    except SeveralCollectionsError:
        service = await collections.find()
    return SearchedService(collection, service, collections, request.app.state.remotes)


SearchedDep = Annotated[SearchedService, Depends(find_searched)]


async def search_by_form(request: Request, asked: SearchedDep) -> SearchAnswer:
    """A search by a form, which may hold a file."""
    check_form(request)
    async with request.form(max_files=asked.service.settings.max_files) as form:
        body = await read_search_form(form)
    return await asked.answer(body)


router.add_api_route(  # before the route for JSON, which takes what is left
    "/search", search_by_form, methods=["POST"], include_in_schema=False, route_class_override=FormRoute
)
FORM: dict[str, Any] = {"responses": body_errors(404), "openapi_extra": form_body("SearchForm")}
router.add_api_route("/search/form", search_by_form, methods=["POST"], tags=["search"], **FORM)


@router.post("/search", tags=["search"], responses=body_errors(404))
async def search(asked: SearchedDep, body: Search) -> SearchAnswer:
    """Find the items nearest to one text, image, mesh, item or vector, or to a weighted mix of them.

    With `collections` each of these answers by itself, and the hits are merged by their evidence.
    """
    asked.service.workers.searching.refuse_if_full()
    return await asked.answer(body)


@router.post("/search/batch", tags=["search"], responses=body_errors(404) | some_refused(BatchSearchAnswer))
async def search_many(asked: SearchedDep, body: BatchSearchBody, response: Response) -> BatchSearchAnswer:
    """Several searches at once; one that cannot be answered says why and leaves the others alone (207).

    If none can be answered, the answer is an error, and has `answers` beside it. All searches together may
    ask for as many hits as `/v1/info` says (`batch_hits`), and share the bytes of a page: where payloads are
    long, each page is shorter, and `next` begins the following one.
    """
    service = asked.service
    service.workers.searching.refuse_if_full()
    check_many(len(body.searches), "searches", service.settings.max_batch)
    searches = [_read_search(raw) for raw in body.searches]
    hits = sum(one.limit * max(1, len(asked.names(one))) for one in searches if isinstance(one, Search))
    check_many(hits, "hits (`limit` of all searches together)", service.settings.max_hits)
    found = await asyncio.gather(*(asked.attempt(one, len(searches)) for one in searches))
    refusals = [one for one in found if isinstance(one, MultifoldError)]
    answer = BatchSearchAnswer(tuple(map(_outcome, found)))
    response.status_code = status_of_several(refusals, len(found), answer)
    return answer


def _read_search(raw: Mapping[str, Any]) -> Search | MultifoldError:
    try:
        return validate(Search, raw)
    except MultifoldError as error:
        return error


def _outcome(found: SearchAnswer | MultifoldError) -> BatchSearchOutcome:
    if isinstance(found, MultifoldError):
        return BatchSearchOutcome(error=refusal(found))
    return BatchSearchOutcome(found)


async def find_similar(
    service: CollectionDep, address: AddressDep, item_id: str, body: SimilarBody
) -> SearchAnswer:
    """Items that are like this one, which itself is left out."""
    part = ItemQueryPart(item_id, choose_sides(body.side, body.target))
    page = SearchPage.of(f"similar {item_id}", service.name, ((part, 1.0),), body)
    # whatever the size of payloads: the page is cut afterwards
    one_more = replace(body, offset=0, after=None, limit=sum(page.window) + 1, fields=())
    found = await run_search(service, ((part, 1.0),), one_more)
    hits, following = page.cut(_leave_out(item_id, found.hits), 0)
    hits = await with_looks(service, hits, body.fields)
    return serialize_answer(replace(found, hits=hits, next=following), service, address, body.fields)


def _leave_out(item_id: str, hits: Sequence[Hit]) -> list[Hit]:
    """The hits without this item; what was folded into it, or beside it, stays."""
    groups = [[one for one in (hit, *hit.same) if one.id != item_id] for hit in hits]
    return [replace(first, same=tuple(others)) for first, *others in filter(None, groups)]


router.add_api_route(
    "/items/{item_id:path}/similar",
    find_similar,
    methods=["POST"],
    tags=["items"],
    responses=body_errors(404),
    route_class_override=ItemRoute,
)


@router.post("/facets", tags=["facets"], responses=body_errors(404))
async def count_facets(service: CollectionDep, body: FacetsBody) -> FacetsAnswer:
    """Count values of payload keys: of all items, of those a filter lets through, or of a query's hits."""
    chosen = await service.filter_of(body.filter)
    collection = service.collection
    where: Choice = chosen
    if body.query is not None:
        if body.query.collections is not None:
            raise ApiError(422, "bad_query", "facets are of one collection: ask each without 'collections'")
        parts = read_parts(body.query, service.settings.max_text)
        options = replace(body.query, limit=body.best, offset=0, after=None, fields=())
        where = [hit.id for hit in (await run_search(service, parts, options, chosen)).hits]
    counts, spans = await service.run(
        lambda: (
            collection.facets(body.keys, where, body.limit),
            collection.read(browse.number_spans, body.keys, where),
        ),
        admitted=body.query is not None,
    )
    return FacetsAnswer(
        {key: tuple(map(_serialize_count, values)) for key, values in counts.items()},
        {key: NumberRange(span.least, span.greatest, span.count) for key, span in spans.items()},
    )


def _serialize_count(facet: ValueCount) -> FacetValueCount:
    value = facet.value if isinstance(facet.value, (str, bool)) else float(facet.value)
    return FacetValueCount(value, facet.count)


def serialize_answer(
    found: SearchHits, service: CollectionService, address: str, chosen: Sequence[str] | None
) -> SearchAnswer:
    encode, search = 1000 * found.encode_seconds, 1000 * found.search_seconds
    presence = found.presence
    counts = None if presence is None else presence.counts
    return SearchAnswer(
        hits=tuple(serialize_hit(hit, address, chosen) for hit in found.hits),
        took_ms=SearchTimings(round(encode, 2), round(search, 2), round(encode + search, 2)),
        version=found.version,
        bundle=service.encoder.bundle.name,
        calibrated_by=found.basis,
        matches_well=found.matches_well,
        understood=_serialize_reading(found.understood),
        here=found.here,
        error=found.error,
        warnings=found.warnings,
        next=found.next,
        everything=None if presence is None else presence.everything,
        chance=None if presence is None else presence.chance,
        items_with_texts=None if counts is None else counts.items,
        items_with_words=None if counts is None else dict(counts.having),
    )


def _serialize_reading(reading: Reading | None) -> Understood | None:
    if reading is None:
        return None
    conditions = (UnderstoodCondition(one.words, one.filter) for one in reading.conditions)
    return Understood(reading.text, tuple(conditions))


def serialize_hit(hit: Hit, address: str, chosen: Sequence[str] | None) -> SearchHit:
    """One hit, with these of its fields, or all; `address` is that of the collection."""
    fields = HIT_FIELDS if chosen is None else chosen
    home = item_address(address, hit.id)
    return SearchHit(
        id=hit.id,
        score=hit.score,
        confidence=hit.confidence,
        modality=hit.side,
        matched=serialize_observation(hit.matched, home, vectors="vectors" in fields),
        payload=choose_keys(hit.payload, fields),
        sides=None if hit.sides is None else dict(hit.sides),
        words=tuple(hit.words) if "words" in fields else (),
        looks_like=hit.looks_like,
        evidence=tuple(
            EvidenceShare(
                one.leg,
                one.value,
                None if one.matched is None else serialize_observation(one.matched, home),
                one.field,
            )
            for one in (hit.evidence if "evidence" in fields else ())
        ),
        duplicates=tuple(
            DuplicateItem(one.id, choose_keys(one.payload, fields))
            for one in (hit.same if "duplicates" in fields else ())
        ),
    )
