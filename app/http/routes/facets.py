"""POST /v1/facets: the values of payload keys with their counts, and the ranges of their numbers."""

from fastapi import APIRouter

from app.http.dependencies import CollectionDep
from app.http.openapi import error_responses
from app.http.parsing import parse_filter, parse_parts
from app.http.schemas.search import FacetsBody
from index.store.browse import Choice, ValueCount
from multifold.wire.search import FacetsAnswer, FacetValueCount, NumberRange

router = APIRouter(tags=["facets"])


@router.post("/facets", responses=error_responses(400, 404, 413, 422, 429, 503))
async def count_facets(runtime: CollectionDep, body: FacetsBody) -> FacetsAnswer:
    """Count values of payload keys: of all items, of those a filter lets through, or of a query's hits."""
    chosen, collection = parse_filter(body.filter), runtime.service.collection
    where: Choice = chosen
    if body.query is not None:
        parts = parse_parts(body.query, runtime.service.settings.max_text)
        options = body.query.model_copy(update={"limit": body.best, "offset": 0})
        where = [hit.id for hit in (await runtime.search(parts, options, chosen)).hits]
    counts, spans = await runtime.run(
        lambda: (collection.facets(body.keys, where, body.limit), collection.spans(body.keys, where))
    )
    return FacetsAnswer(
        {key: tuple(map(_serialize_count, values)) for key, values in counts.items()},
        {key: NumberRange(span.least, span.greatest, span.count) for key, span in spans.items()},
    )


def _serialize_count(facet: ValueCount) -> FacetValueCount:
    value = facet.value if isinstance(facet.value, (str, bool)) else float(facet.value)
    return FacetValueCount(value, facet.count)
