"""POST /v1/search, /v1/search/batch and /v1/facets: find items, and count the values of what is found."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from app.errors import ApiError
from app.http.conversion import (
    FORM_OBJECTS,
    CollectionDep,
    collection_runtime,
    media_type,
    parse_filter,
    parse_parts,
    parse_search_form,
    read_body,
    serialize_answer,
    serialize_refusal,
    validate,
)
from app.http.openapi import BINARY_FILE, body_route, error_responses
from app.http.schemas.search import BatchSearchBody, FacetsBody, SearchBody, SearchOptions
from app.runtime.runtime import CollectionRuntime
from app.search.query import WeightedParts
from index.store.browse import Choice, ValueCount
from multifold.errors import MultifoldError
from multifold.wire.search import (
    BatchSearchAnswer,
    BatchSearchOutcome,
    FacetsAnswer,
    FacetValueCount,
    NumberRange,
    SearchAnswer,
)

router = APIRouter()
SEARCH_ANSWER = TypeAdapter(SearchAnswer)


def _form() -> dict[str, Any]:
    """The form that can be searched with, for OpenAPI."""
    options = SearchOptions.model_json_schema()["properties"]
    for name in FORM_OBJECTS:
        options[name] = {"type": "string", "description": f"a JSON object: {options[name]['description']}"}
    for name, field in options.items():  # a form leaves out what JSON may say to be null
        kinds = [one for one in field.pop("anyOf", []) if one["type"] != "null"]
        options[name] = {**field, **(kinds[0] if kinds else {})}
    text = {"type": "string"}
    query = {"text": text, "image": BINARY_FILE, "mesh": BINARY_FILE, "mesh_format": text}
    ways = [{"required": [name]} for name in ("text", "image", "mesh")]
    return {
        "type": "object",
        "properties": {**query, **options},
        "oneOf": ways,
        "additionalProperties": False,
        "examples": [{"text": "a red chair", "limit": 5}],
    }


class DirectRoute(APIRoute):
    """A route whose function reads the request itself; FastAPI describes it only."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            response: Response = await self.endpoint(request, await collection_runtime(request))
            return response

        return handle


async def search(request: Request, runtime: CollectionDep) -> Response:
    """Find the items nearest to one text, image, mesh, item or vector, or to a weighted mix of them."""
    found = await runtime.search(*await _parse_search(request, runtime))
    answer = serialize_answer(found, runtime)
    return Response(SEARCH_ANSWER.dump_json(answer), media_type="application/json")  # not checked again


SEARCH_ROUTE = body_route(SearchBody, 400, 404, **{"multipart/form-data": _form()})
router.add_api_route(
    "/search",
    search,
    methods=["POST"],
    tags=["search"],
    response_model=SearchAnswer,
    route_class_override=DirectRoute,
    **SEARCH_ROUTE,
)


@router.post("/search/batch", tags=["search"], **body_route(BatchSearchBody))
async def search_many(request: Request, runtime: CollectionDep) -> BatchSearchAnswer:
    """Several searches at once; one that cannot be answered says why and leaves the others alone."""
    body = await read_body(request, BatchSearchBody, runtime.run)
    runtime.check_many(len(body.searches), "searches")
    return BatchSearchAnswer(tuple(await asyncio.gather(*(_outcome(runtime, raw) for raw in body.searches))))


async def _outcome(runtime: CollectionRuntime, raw: dict[str, Any]) -> BatchSearchOutcome:
    try:
        body = validate(SearchBody, raw)
        found = await runtime.search(parse_parts(body, runtime.service.settings.max_text), body)
    except MultifoldError as error:
        return BatchSearchOutcome(error=serialize_refusal(error))
    return BatchSearchOutcome(serialize_answer(found, runtime))


async def _parse_search(request: Request, runtime: CollectionRuntime) -> tuple[WeightedParts, SearchOptions]:
    settings = runtime.service.settings
    kind = media_type(request.headers)
    if kind == "application/json":
        body = await read_body(request, SearchBody, runtime.run)
        return parse_parts(body, settings.max_text), body
    if kind == "multipart/form-data":
        async with request.form(max_files=settings.max_files) as form:
            return await parse_search_form(form, settings.max_text)
    raise ApiError(415, "unsupported_media_type", "send application/json or multipart/form-data")


@router.post("/facets", tags=["facets"], responses=error_responses(400, 404, 413, 422, 429, 503))
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
