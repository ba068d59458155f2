"""POST /v1/facets: the values of payload keys with their counts, and the ranges of their numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.http.dependencies import CollectionDep
from app.http.openapi import error_responses
from app.http.parsing import parse_filter, parse_parts
from app.http.schemas.search import FacetsBody, SearchBody
from app.runtime.runtime import CollectionRuntime
from index.store.browse import FacetCounter, NumberSpan, ValueCount, check_facets
from multifold.errors import needs_extra
from multifold.wire.search import FacetsAnswer, FacetValueCount, NumberRange

with needs_extra("serve"):
    from fastapi import APIRouter

router = APIRouter(tags=["facets"])


@router.post("/facets", responses=error_responses(413, 422, 429, 503))
async def facets(runtime: CollectionDep, body: FacetsBody) -> FacetsAnswer:
    """Count values of payload keys: of all items, of those a filter lets through, or of a query's hits."""
    if body.query is not None:
        tally = FacetCounter(await _payloads(runtime, body, body.query), body.keys)
        return _answer(tally.facets(body.limit), tally.spans())
    chosen, collection = parse_filter(body.filter), runtime.service.collection
    return _answer(
        *await runtime.run(
            lambda: (collection.facets(body.keys, chosen, body.limit), collection.spans(body.keys, chosen))
        )
    )


async def _payloads(
    runtime: CollectionRuntime, body: FacetsBody, query: SearchBody
) -> list[Mapping[str, Any]]:
    """What the best hits of a query carry, of those that both filters let through."""
    check_facets(body.keys, body.limit)
    parts = parse_parts(query, runtime.service.settings.max_text)
    options = query.model_copy(update={"limit": body.best, "offset": 0})
    found = await runtime.search(parts, options, parse_filter(body.filter))
    return [hit.payload for hit in found.hits]


def _answer(counts: Mapping[str, Sequence[ValueCount]], spans: Mapping[str, NumberSpan]) -> FacetsAnswer:
    return FacetsAnswer(
        {key: tuple(map(_serialize_count, values)) for key, values in counts.items()},
        {key: NumberRange(span.least, span.greatest, span.count) for key, span in spans.items()},
    )


def _serialize_count(facet: ValueCount) -> FacetValueCount:
    value = facet.value if isinstance(facet.value, (str, bool)) else float(facet.value)
    return FacetValueCount(value, facet.count)
